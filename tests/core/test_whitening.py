import numpy as np
import pytest
from numpy.testing import assert_allclose

from repalign.core.linalg import fit_whitening
from repalign.exceptions import InputError


def whiten(x: np.ndarray, **options: object):
    values = x.astype(np.float64)
    return fit_whitening(
        values.mean(0),
        np.cov(values.T, bias=True),
        epsilon=float(np.finfo(x.dtype).eps),
        n_rows=len(x),
        **options,
    )


def test_whitened_rows_have_unit_covariance_and_come_back() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((500, 6)) @ rng.standard_normal((6, 6)) + 4
    found = whiten(x)
    z = (x - found.mean) @ found.matrix.T
    assert_allclose(np.cov(z.T, bias=True), np.eye(6), atol=1e-10)
    assert_allclose(z @ found.inverse.T + found.mean, x, atol=1e-10)
    assert np.all(np.diff(found.variances) <= 0)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("offset", [0.0, 30.0])
def test_a_layer_norm_has_one_direction_less(dtype: type, offset: float) -> None:
    x = np.random.default_rng(0).standard_normal((4000, 48))
    x = (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True) + offset
    assert whiten(x.astype(dtype)).rank == 47


def test_dead_columns_are_counted_and_left_out() -> None:
    x = np.maximum(np.random.default_rng(0).standard_normal((300, 6)), 0) * [1, 0, 1, 1, 0, 1]
    found = whiten(x)
    assert (found.rank, found.n_constant) == (4, 2)


def test_fewer_rows_than_columns_have_rank_below_the_rows() -> None:
    assert whiten(np.random.default_rng(0).standard_normal((5, 20))).rank == 4


@pytest.mark.parametrize(("dtype", "rank"), [(np.float32, 10), (np.float64, 10)])
def test_rounding_noise_of_low_rank_rows_is_left_out(dtype: type, rank: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((400, 10)) @ rng.standard_normal((10, 40))
    assert whiten(x.astype(dtype)).rank == rank


def test_small_directions_that_are_real_are_kept() -> None:
    x = np.random.default_rng(0).standard_normal((4000, 64)) * np.geomspace(1, 1e-4, 64)
    assert whiten(x.astype(np.float32)).rank == 64


def test_the_rank_can_be_limited() -> None:
    x = np.random.default_rng(0).standard_normal((100, 6)) * np.arange(1, 7)
    assert whiten(x, max_rank=2).rank == 2
    assert_allclose(whiten(x, max_rank=2).variances, whiten(x).variances[:2])


def test_a_covariance_of_few_rows_has_a_rank_below_them_however_it_was_made() -> None:
    assert fit_whitening(np.zeros(6), np.eye(6), epsilon=1e-7, n_rows=5).rank == 4


def test_rows_that_do_not_vary_are_refused() -> None:
    with pytest.raises(InputError, match="vary"):
        whiten(np.ones((10, 3)))
