import numpy as np
import pytest
from numpy.testing import assert_allclose

from repalign.core.maps import fit_rigid, nearest_orthogonal
from repalign.core.moments import PairMoments, pair_moments
from repalign.core.rows import ArrayRows
from tests.core.paired_data import moments_of


def turned(d: int, seed: int) -> np.ndarray:
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((d, d)))[0]


def rotation_in(plane: tuple[int, int], degrees: float, d: int) -> np.ndarray:
    matrix, (i, j), turn = np.eye(d), plane, np.deg2rad(degrees)
    matrix[i, i] = matrix[j, j] = np.cos(turn)
    matrix[i, j], matrix[j, i] = -np.sin(turn), np.sin(turn)
    return matrix


def crossed(sxy: np.ndarray) -> PairMoments:
    """Moments of these cross products and of unit spreads, for closed forms."""
    p, q = sxy.shape
    return PairMoments(99, np.zeros(p), np.zeros(q), np.eye(p), sxy, np.eye(q))


def test_rows_that_determine_it_leave_nothing_free() -> None:
    x = np.random.default_rng(0).standard_normal((30, 4))
    found = nearest_orthogonal(moments_of(x, x @ turned(4, 1)))
    assert_allclose(found.matrix, turned(4, 1), atol=1e-12)
    assert found.free.shape == (4, 0)


def test_a_turn_that_is_seen_in_one_plane_leaves_the_other_columns() -> None:
    turn = rotation_in((0, 1), 40, 5)
    seen = np.diag([3.0, 2, 0, 0, 0])
    found = nearest_orthogonal(crossed(seen @ turn))
    assert_allclose(found.matrix, turn, atol=1e-12)
    assert_allclose(np.abs(found.free), np.eye(5)[:, 2:], atol=1e-12)


def test_one_seen_direction_leaves_the_shortest_rotation() -> None:
    # e1 goes to cos·e1 + sin·e2: of all completions the turn of that plane has the largest trace
    turn = rotation_in((0, 1), -70, 4)
    found = nearest_orthogonal(crossed(np.outer(np.eye(4)[0], turn[0])))
    assert_allclose(found.matrix, turn, atol=1e-12)


def test_no_completion_is_nearer_to_the_identity() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((6, 9)), rng.standard_normal((6, 9))
    found = nearest_orthogonal(moments_of(x, y))
    left, _values, right = np.linalg.svd(moments_of(x, y).sxy)
    known = left[:, :5] @ right[:5]
    for seed in range(50):
        other = known + left[:, 5:] @ turned(4, seed) @ right[5:]
        assert np.trace(other) <= np.trace(found.matrix)
    assert_allclose(found.matrix.T @ found.matrix, np.eye(9), atol=1e-12)


@pytest.mark.parametrize("widths", [(40, 40), (40, 30), (30, 40)])
@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_order_of_rows_and_size_of_blocks_do_not_choose(widths, offset: float) -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((20, width)) + offset for width in widths)
    order = rng.permutation(20)
    first = fit_rigid(moments_of(x, y))
    second = fit_rigid(moments_of(x[order], y[order]))
    halves = np.repeat([0, 1], 10)
    parts = pair_moments(ArrayRows(x), ArrayRows(y), part_of_row=halves, n_parts=2)
    third = fit_rigid(parts[1] + parts[0])
    assert_allclose(second.matrix, first.matrix, atol=1e-11)
    assert_allclose(third.matrix, first.matrix, atol=1e-11)


@pytest.mark.parametrize("n", [1, 2, 7])
def test_equal_inputs_give_the_identity_however_few_rows(n: int) -> None:
    x = np.random.default_rng(0).standard_normal((n, 12))
    assert_allclose(nearest_orthogonal(moments_of(x, x)).matrix, np.eye(12), atol=1e-12)


def test_columns_that_are_constant_in_one_space_each_are_paired_by_a_rule() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((50, 4))
    y = x[:, [1, 0, 2, 3]] + 0.1
    x[:, 0], y[:, 2] = 0.1, 0.3
    order = rng.permutation(50)
    found = nearest_orthogonal(moments_of(x, y))
    again = nearest_orthogonal(moments_of(x[order], y[order]))
    assert_allclose(found.matrix.T @ found.matrix, np.eye(4), atol=1e-12)
    assert_allclose(again.matrix, found.matrix, atol=1e-10)


def test_what_is_as_near_costs_nothing() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((6, 9)), rng.standard_normal((6, 9))
    moments = moments_of(x, y)
    left, _values, right = np.linalg.svd(moments.sxy)
    squared = [
        np.sum(((x - x.mean(0)) @ matrix - (y - y.mean(0))) ** 2)
        for matrix in (left @ right, nearest_orthogonal(moments).matrix)
    ]
    assert_allclose(squared[1], squared[0], rtol=1e-12)
