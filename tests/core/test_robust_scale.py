import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.distance import pdist

from repalign.core.rows import ArrayRows
from repalign.core.scale import quantile_diameter, rms_radius
from repalign.exceptions import InputError
from tests.core.paired_data import moments_of


def test_the_rms_radius_is_about_the_mean() -> None:
    y = np.random.default_rng(0).standard_normal((50, 4)) + 100
    expected = np.sqrt(np.mean(np.sum((y - y.mean(0)) ** 2, axis=1)))
    assert_allclose(rms_radius(moments_of(y[:, :1], y)), expected)


def test_small_stores_give_the_quantile_of_all_pairs() -> None:
    y = np.random.default_rng(0).standard_normal((60, 4))
    assert_allclose(quantile_diameter(ArrayRows(y)), np.quantile(pdist(y), 0.99))
    assert_allclose(quantile_diameter(ArrayRows(y), quantile=1.0), pdist(y).max())


def test_a_sample_is_close_and_seeded() -> None:
    y = np.random.default_rng(0).standard_normal((3000, 8))
    sampled = quantile_diameter(ArrayRows(y), sample_rows=1000, seed=3)
    assert_allclose(sampled, np.quantile(pdist(y), 0.99), rtol=0.02)
    assert sampled == quantile_diameter(ArrayRows(y), sample_rows=1000, seed=3)


def test_one_outlier_hardly_moves_it() -> None:
    y = np.random.default_rng(0).standard_normal((1000, 8))
    before = quantile_diameter(ArrayRows(y))
    y[7] *= 100
    assert_allclose(quantile_diameter(ArrayRows(y)), before, rtol=0.05)


@pytest.mark.parametrize("spread", [1.0, 1e-6])
def test_no_outlier_costs_digits(spread: float) -> None:
    y = spread * np.random.default_rng(0).standard_normal((300, 8)) + 5
    y[7] += 100
    expected = np.quantile(pdist(y), 0.99)
    assert_allclose(quantile_diameter(ArrayRows(y)), expected, rtol=1e-13)


def test_a_single_row_has_no_extent() -> None:
    assert quantile_diameter(ArrayRows(np.ones((1, 3)))) == 0.0


def test_a_quantile_out_of_range_is_refused() -> None:
    with pytest.raises(InputError, match=r"99\.0"):
        quantile_diameter(ArrayRows(np.ones((4, 3))), quantile=99.0)
