import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.spatial.distance import cdist, pdist

from repalign.core.cosine_bounds import build_unit_rows
from repalign.core.rows import ArrayRows
from repalign.core.scale import Diameter, diameter
from repalign.exceptions import InputError


def cloud(kind: str, n: int, d: int = 24) -> np.ndarray:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, d))
    return {
        "gaussian": x,
        "sphere": x / np.linalg.norm(x, axis=1, keepdims=True),
        "power law": x * np.arange(1, d + 1) ** -0.5,
        "heavy": x * rng.standard_t(2, (n, 1)),
        "clusters": np.repeat(x[: n // 50], 50, axis=0) + 0.01 * rng.standard_normal((n, d)),
        "simplex": np.eye(d)[rng.integers(0, d, n)],
        "duplicates": np.repeat(x[: n // 20], 20, axis=0),
        "far from the origin": x + 1e5,
    }[kind]


KINDS = (
    "gaussian",
    "sphere",
    "power law",
    "heavy",
    "clusters",
    "simplex",
    "duplicates",
    "far from the origin",
)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [100, 5000])
def test_it_is_the_largest_of_all_distances(kind: str, n: int) -> None:
    x = cloud(kind, n)
    found = diameter(ArrayRows(x))
    assert_allclose(found.value, pdist(x).max(), rtol=1e-12)
    assert found.exact
    assert found.upper == found.value
    assert_allclose(np.linalg.norm(x[found.first_row] - x[found.second_row]), found.value)


@pytest.mark.parametrize("kind", ["gaussian", "power law"])
def test_single_precision_rows_are_measured_in_double(kind: str) -> None:
    x = cloud(kind, 3000).astype(np.float32) + np.float32(1000)
    expected = pdist(x.astype(np.float64)).max()
    assert_allclose(diameter(ArrayRows(x)).value, expected, rtol=1e-12)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), n=st.integers(1, 40), d=st.integers(1, 6))
def test_it_obeys_rigid_motion_and_scale(seed: int, n: int, d: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d))
    turn = np.linalg.qr(rng.standard_normal((d, d)))[0]
    value = diameter(ArrayRows(x)).value
    assert_allclose(diameter(ArrayRows(3.5 * x @ turn + 7)).value, 3.5 * value, atol=1e-12)
    assert_allclose(value, cdist(x, x).max(), atol=1e-14)


@pytest.mark.parametrize("kind", ["gaussian", "sphere", "simplex"])
def test_an_interval_is_certified_where_the_budget_ends(kind: str) -> None:
    x = cloud(kind, 8000)
    found = diameter(ArrayRows(x), budget=1e8)
    exact = pdist(x).max()
    assert not found.exact
    assert found.value <= exact * (1 + 1e-12)
    assert exact <= found.upper


def test_an_interval_is_certified_where_the_memory_ends() -> None:
    x = cloud("gaussian", 8000)
    found = diameter(ArrayRows(x), memory_bytes=4 * 24 * 3000)
    exact = pdist(x).max()
    assert not found.exact
    assert found.value <= exact * (1 + 1e-12)
    assert exact <= found.upper


def test_any_centre_gives_the_same_answer() -> None:
    x = cloud("gaussian", 4000)
    expected = diameter(ArrayRows(x))
    moved = diameter(ArrayRows(x), centre=x[17] + 1)
    assert_allclose(moved.value, expected.value, rtol=1e-14)
    assert {moved.first_row, moved.second_row} == {expected.first_row, expected.second_row}


@pytest.mark.parametrize("device", [None, "cpu"])  # by numpy, by torch
@pytest.mark.parametrize("d", [3, 24, 300])
def test_bounds_of_cosines_hold_for_every_pair(d: int, device: str | None) -> None:
    x = np.random.default_rng(0).standard_normal((400, d))
    centre = x.mean(0)
    radii = np.linalg.norm(x - centre, axis=1)
    unit = build_unit_rows(ArrayRows(x), np.arange(400), centre, radii, device)
    directions = (x - centre) / radii[:, None]
    cosines = directions[:150] @ directions[150:].T
    bound = unit.lowest_cosines(slice(0, 150), slice(150, 400))
    lowest = cosines.min(axis=1)
    assert np.all(bound <= lowest + 1e-15)
    # and they are of use: within the rounding of bfloat16 where the cosine is negative
    assert np.all(bound >= np.minimum(lowest, 0) - 0.02)


@pytest.mark.parametrize(
    ("x", "value"),
    [
        (np.ones((1, 3)), 0.0),
        (np.full((50, 3), 0.1), 0.0),
        (np.array([[0.0], [2.0]]), 2.0),
        (np.array([[0.0, 0.0], [3.0, 4.0], [1.0, 1.0]]), 5.0),
    ],
)
def test_small_and_degenerate_rows(x: np.ndarray, value: float) -> None:
    found = diameter(ArrayRows(x))
    assert found.value == value
    assert found.exact


def test_it_names_the_two_rows() -> None:
    x = np.zeros((100, 2))
    x[70], x[13] = [9, 0], [-9, 0]
    assert diameter(ArrayRows(x)) == Diameter(18.0, 18.0, True, 13, 70)


def test_rows_that_are_not_finite_are_refused() -> None:
    x = cloud("gaussian", 100)
    x[42, 3] = np.nan
    with pytest.raises(InputError, match=r"nan.* 42.* 3"):
        diameter(ArrayRows(x))
    with pytest.raises(InputError, match=r"nan.* 42.* 3"):
        diameter(ArrayRows(x), centre=np.zeros(24))


def test_progress_is_told() -> None:
    seen: list[tuple[int, int]] = []
    diameter(
        ArrayRows(cloud("gaussian", 5000)),
        on_progress=lambda done, total: seen.append((done, total)),
    )
    done, total = seen[-1]
    assert done == total > 1
