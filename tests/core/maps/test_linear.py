import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose

from repalign.core.maps import (
    fit_linear,
    fit_linear_from_rows,
    is_ill_conditioned,
)
from repalign.core.rows import ArrayRows
from tests.core.paired_data import moments_of

N_ROWS, SOURCE_DIM, TARGET_DIM = 40, 5, 2


def conditioned_pair(condition: float, *, offset: float = 0.0, scale: float = 1.0):
    """Rows whose centred singular values fall evenly from 1 to 1/condition."""
    rng = np.random.default_rng(0)
    left = np.linalg.qr(rng.standard_normal((N_ROWS, SOURCE_DIM)))[0]
    right = np.linalg.qr(rng.standard_normal((SOURCE_DIM, SOURCE_DIM)))[0]
    left = np.linalg.qr(left - left.mean(0))[0]
    x = left * np.geomspace(1, 1 / condition, SOURCE_DIM) @ right.T * np.sqrt(N_ROWS)
    y = left @ rng.standard_normal((SOURCE_DIM, TARGET_DIM)) * np.sqrt(N_ROWS)
    y += 0.1 * rng.standard_normal(y.shape)
    return scale * (x + offset), scale * (y - offset)


def exact_predictions(x: np.ndarray, y: np.ndarray, rank: int) -> np.ndarray:
    """Fitted values of least squares on the ``rank`` leading directions, with fifty digits."""
    with mpmath.workdps(50):
        a, b = mpmath.matrix(x.tolist()), mpmath.matrix(y.tolist())
        for matrix in (a, b):
            for column in range(matrix.cols):
                mean = mpmath.fsum(matrix[:, column]) / matrix.rows
                for row in range(matrix.rows):
                    matrix[row, column] -= mean
        left = mpmath.svd_r(a)[0][:, :rank]
        fitted = left * (left.T * b)
        return np.array(fitted.tolist(), dtype=np.float64)


def relative_error(x: np.ndarray, y: np.ndarray, *, refine: bool, rank: int = SOURCE_DIM) -> float:
    moments = moments_of(x, y)
    fitted = (
        fit_linear_from_rows(ArrayRows(x), ArrayRows(y), moments) if refine else fit_linear(moments)
    )
    centred = x.astype(np.float64) - moments.mean_x
    predicted = centred @ fitted.matrix
    exact = exact_predictions(x, y, rank)
    return float(np.linalg.norm(predicted - exact) / np.linalg.norm(exact))


# Normal equations square the condition number: eps * cond^2, with a small constant.
@pytest.mark.parametrize("condition", [1e2, 1e3, 1e4, 1e5])
def test_moments_alone_are_accurate_to_the_square_of_the_condition(condition: float) -> None:
    error = relative_error(*conditioned_pair(condition), refine=False)
    assert error < 20 * 2.0**-52 * condition**2


# An orthogonal decomposition reaches eps * cond; so does the second reading of the rows.
@pytest.mark.parametrize("condition", [1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e10])
def test_rows_give_the_accuracy_of_an_orthogonal_decomposition(condition: float) -> None:
    x, y = conditioned_pair(condition)
    error = relative_error(x, y, refine=True)
    xc, yc = x - x.mean(0), y - y.mean(0)
    by_numpy = xc @ np.linalg.lstsq(xc, yc, rcond=None)[0]
    exact = exact_predictions(x, y, SOURCE_DIM)
    numpy_error = float(np.linalg.norm(by_numpy - exact) / np.linalg.norm(exact))
    assert error < max(1e-5 if condition < 1e6 else 0, 1e-14, 100 * numpy_error)
    assert error < 20 * 2.0**-52 * max(condition, min(condition, 1e5) ** 2)


@pytest.mark.parametrize("condition", [1e2, 1e3, 1e4, 1e5])
def test_single_precision_rows_are_fitted_as_they_are_stored(condition: float) -> None:
    x, y = (values.astype(np.float32) for values in conditioned_pair(condition))
    assert not is_ill_conditioned(moments_of(x, y))
    assert relative_error(x, y, refine=True) < 20 * 2.0**-52 * condition**2


@pytest.mark.parametrize(("condition", "rank"), [(1e6, 5), (1e7, 4), (1e8, 4)])
def test_directions_of_single_precision_rounding_are_not_fitted(condition, rank) -> None:
    x, y = (values.astype(np.float32) for values in conditioned_pair(condition))
    assert np.linalg.matrix_rank(fit_linear(moments_of(x, x)).matrix) == rank
    # The last directions kept are within a few roundings of the cut; they are known to 1e-3.
    assert relative_error(x, y, refine=True, rank=rank) < 1e-3


@pytest.mark.parametrize("condition", [1e2, 1e4, 1e6, 1e8])
def test_a_large_common_offset_costs_only_its_own_digits(condition: float) -> None:
    # Storing a value of 1e4 leaves 2^-53 * 1e4 of rounding in it; the reference has the same.
    error = relative_error(*conditioned_pair(condition, offset=1e4), refine=True)
    assert error < 1e3 * 2.0**-52 * max(1e4 * condition, min(condition, 1e5) ** 2)


@pytest.mark.parametrize("scale", [1e-25, 1e-12, 1e12, 1e24])
@pytest.mark.parametrize("condition", [1e2, 1e8])
def test_tiny_and_huge_scales_change_nothing(scale: float, condition: float) -> None:
    error = relative_error(*conditioned_pair(condition, scale=scale), refine=True)
    assert error < 20 * 2.0**-52 * max(condition, 1e4)


def test_rank_deficient_rows_get_the_solution_of_least_norm() -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((50, 3)) @ rng.standard_normal((3, 6))
    y = rng.standard_normal((50, 2))
    xc, yc = x - x.mean(0), y - y.mean(0)
    expected = np.linalg.lstsq(xc, yc, rcond=None)[0]
    moments = moments_of(x, y)
    assert_allclose(fit_linear(moments).matrix, expected, atol=1e-12)
    refined = fit_linear_from_rows(ArrayRows(x), ArrayRows(y), moments)
    assert_allclose(refined.matrix, expected, atol=1e-10)


def test_rounding_noise_of_low_rank_rows_is_not_fitted() -> None:
    rng = np.random.default_rng(2)
    x = (rng.standard_normal((400, 20)) @ rng.standard_normal((20, 40))).astype(np.float32)
    assert np.linalg.matrix_rank(fit_linear(moments_of(x, x)).matrix) == 20


@pytest.mark.parametrize("seed", range(25))
def test_random_problems_agree_with_least_squares_of_numpy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, p, q = int(rng.integers(5, 60)), int(rng.integers(1, 12)), int(rng.integers(1, 8))
    x, y = rng.standard_normal((n, p)) * 3 + 2, rng.standard_normal((n, q)) - 1
    xc, yc = x - x.mean(0), y - y.mean(0)
    expected = xc @ np.linalg.lstsq(xc, yc, rcond=None)[0] + y.mean(0)
    moments = moments_of(x, y)
    fitted = fit_linear_from_rows(ArrayRows(x), ArrayRows(y), moments)
    assert_allclose(fitted.apply(x), expected, atol=1e-6 * np.abs(y).max())
