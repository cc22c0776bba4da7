"""Errors over the diameter on pairs whose values are known in closed form or from others."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from repalign.core.linalg import match_signed
from repalign.core.maps import fit_map
from repalign.core.row_errors import row_errors
from repalign.core.rows import ArrayRows
from repalign.core.scale import diameter
from tests.core.paired_data import fixture_a, fixture_p, moments_of, unit_cube


def relative_error(x: np.ndarray, y: np.ndarray, kind: str) -> float:
    fitted = fit_map(kind, moments_of(x, y))
    (errors,) = row_errors(ArrayRows(x), ArrayRows(y), [fitted])
    return float(errors.mean()) / diameter(ArrayRows(y)).value


@pytest.mark.parametrize(
    ("kind", "expected"), [("mean", 0.5), ("permutation", 0.25), ("rigid", 0.0), ("linear", 0.0)]
)
def test_unit_cube_has_its_closed_form(kind: str, expected: float) -> None:
    assert_allclose(relative_error(*unit_cube(), kind), expected, atol=1e-14)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("permutation", 0.15524978546),
        ("rigid", 0.02094425981),
        ("linear", 0.02083532007),
        ("mean", 0.15658157637),
    ],
)
def test_rotated_pair_agrees_with_independent_values(kind: str, expected: float) -> None:
    assert_allclose(relative_error(*fixture_a(), kind), expected, rtol=1e-9)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("permutation", 0.0161015988), ("rigid", 0.0160556441), ("linear", 0.0159817302)],
)
def test_permuted_pair_agrees_with_independent_values(kind: str, expected: float) -> None:
    assert_allclose(relative_error(*fixture_p(), kind), expected, rtol=1e-8)


def test_permuted_pair_gives_back_its_permutation_and_signs() -> None:
    moments = moments_of(*fixture_p())
    matching = match_signed(moments.sxy)
    assert matching.source.tolist() == [5, 2, 0, 1, 3, 4]
    assert matching.sign.tolist() == [1, -1, -1, 1, 1, 1]
    assert_allclose(matching.value.sum(), 72608.888616, rtol=1e-10)


def test_diameters_and_scale_of_the_fixtures() -> None:
    x, y = fixture_a()
    assert_allclose(diameter(ArrayRows(y)).value, 55.340589934392945, rtol=1e-14)
    assert_allclose(diameter(ArrayRows(fixture_p()[1])).value, 71.27351903746, rtol=1e-12)
    matrix = fit_map("rigid", moments_of(x, y)).matrix
    assert_allclose(np.linalg.svd(matrix, compute_uv=False), 0.6990049768833, rtol=1e-12)
