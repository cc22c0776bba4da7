import numpy as np
from scipy.stats import kurtosis

from repalign.core.inference.gaussian_twin import draw_gaussian_twin
from repalign.core.moments import pair_moments
from repalign.core.rows import ArrayRows


def test_the_twin_has_the_means_and_covariances_but_no_kurtosis() -> None:
    rng = np.random.default_rng(0)
    x = rng.laplace(size=(5000, 3)) * [1, 2, 3] + 7
    y = x[:, :2] @ rng.standard_normal((2, 2)) + 0.1 * rng.laplace(size=(5000, 2))
    (moments,) = pair_moments(ArrayRows(x), ArrayRows(y))
    twin_x, twin_y = draw_gaussian_twin(moments, 200_000, seed=0)
    both, twins = np.hstack([x, y]), np.hstack([twin_x, twin_y])
    scale = both.std(axis=0)
    # a covariance of 200,000 rows is known to about 1/√200,000 of the scales
    np.testing.assert_allclose(twins.mean(0) / scale, both.mean(0) / scale, atol=0.01)
    np.testing.assert_allclose(np.cov(twins.T), np.cov(both.T), atol=0.02 * scale.max() ** 2)
    assert np.abs(kurtosis(twins)).max() < 0.1
    assert kurtosis(both).min() > 1


def test_a_rank_deficient_pair_has_a_twin_of_the_same_rank() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((50, 1)) @ np.ones((1, 3))
    (moments,) = pair_moments(ArrayRows(x), ArrayRows(2 * x))
    twin_x, twin_y = draw_gaussian_twin(moments, 20, seed=1)
    # a direction without variance stays within the square root of rounding
    np.testing.assert_allclose(twin_y, 2 * twin_x, atol=1e-6)
