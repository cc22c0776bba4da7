import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose

from repalign.core.affine import AffineMap
from repalign.core.linalg import match_signed
from repalign.core.maps import fit_permutation, match_columns
from repalign.core.moments import PairMoments
from tests.core.paired_data import moments_of


def fitted_to(
    moments: PairMoments, cost: str = "inner-product", *, scale: bool = False
) -> AffineMap:
    return fit_permutation(moments, match_columns(moments, cost), scale=scale)


@pytest.mark.parametrize("seed", range(10))
def test_no_signed_permutation_has_less_squared_error(seed: int) -> None:
    rng = np.random.default_rng(seed)
    d = int(rng.integers(2, 5))
    x, y = rng.standard_normal((30, d)), rng.standard_normal((30, d))
    xc, yc = x - x.mean(0), y - y.mean(0)
    lowest = min(
        float(np.sum((xc[:, list(order)] * signs - yc) ** 2))
        for order in itertools.permutations(range(d))
        for signs in itertools.product([-1, 1], repeat=d)
    )
    fitted = fitted_to(moments_of(x, y))
    assert_allclose(np.sum((fitted.apply(x) - y) ** 2), lowest, rtol=1e-10)


def test_the_scale_of_a_wider_source_is_that_of_the_matched_columns() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((60, 4)) * [9, 2, 7, 1]
    y = 3 * x[:, [3, 1]] + rng.standard_normal((60, 2))
    fitted = fitted_to(moments_of(x, y), "correlation", scale=True)
    matched = (x - x.mean(0))[:, [3, 1]]
    expected = np.sum(matched * (y - y.mean(0))) / np.sum(matched**2)
    assert_allclose(fitted.matrix[[3, 1], [0, 1]], expected)


def test_correlation_cost_ignores_the_columns_variances() -> None:
    first, second = np.random.default_rng(0).standard_normal((2, 500))
    moments = moments_of(
        np.column_stack([100 * first, second]),
        np.column_stack([second + 0.3 * first, 0.001 * first]),
    )
    by_correlation = fitted_to(moments, "correlation")
    assert np.abs(by_correlation.matrix).argmax(axis=0).tolist() == [1, 0]
    assert np.abs(fitted_to(moments).matrix).argmax(axis=0).tolist() == [0, 1]


def test_a_constant_column_does_not_disturb_the_correlation_cost() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((50, 3)) * [1, 0, 1]
    fitted = fitted_to(moments_of(x, x), "correlation")
    assert_allclose(fitted.matrix, np.eye(3))


def test_pairs_without_similarity_keep_a_sign() -> None:
    matching = match_signed(np.zeros((3, 3)))
    assert matching.sign.tolist() == [1, 1, 1]


@pytest.mark.parametrize("seed", range(5))
def test_columns_that_hold_the_same_keep_their_number(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((40, 2))[:, [0, 1, 0, 1, 0]]
    noise = 1e-15 * rng.standard_normal((5, 5))
    assert match_signed(x.T @ x + noise).source.tolist() == [0, 1, 2, 3, 4]


def test_constant_columns_are_matched_in_the_order_in_which_they_stand() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((40, 5))
    y = x[:, [3, 1, 0, 2, 4]]
    x, y = x * [1, 0, 1, 0, 1] + 1e5, y * [0, 0, 1, 1, 1] - 1e5
    for order in (np.arange(40), rng.permutation(40)):
        matrix = fitted_to(moments_of(x[order], y[order])).matrix
        assert_allclose(matrix, np.eye(5)[:, [1, 3, 0, 2, 4]])


def test_a_tie_of_sums_is_decided_alike_whatever_the_rounding() -> None:
    # every signed assignment of balanced yes-or-no columns to each other is as good
    tied = np.full((6, 6), 0.5)
    noise = 1e-15 * np.random.default_rng(0).standard_normal((6, 6))
    assert match_signed(tied).source.tolist() == [0, 1, 2, 3, 4, 5]
    assert match_signed(tied + noise).source.tolist() == [0, 1, 2, 3, 4, 5]
    tied[np.diag_indices(6)] = 0.0
    found = match_signed(tied + noise * (tied > 0))
    assert found.source.tolist() == match_signed(tied).source.tolist()
    assert found.value.min() > 0.4
