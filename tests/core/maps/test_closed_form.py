import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial import procrustes

from repalign.core.maps import fit_rigid
from repalign.core.measures import procrustes_angle
from tests.core.paired_data import fixture_a, moments_of


@pytest.mark.parametrize("seed", range(25))
def test_random_problems_agree_with_procrustes_of_scipy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(3, 80)), int(rng.integers(1, 10))
    x, y = rng.standard_normal((n, d)) * 3 + 2, rng.standard_normal((n, d)) - 1
    moments = moments_of(x, y)
    _target, fitted, disparity = procrustes(y, x)
    norm = np.linalg.norm(y - y.mean(0))
    predicted = fit_rigid(moments).apply(x)
    assert_allclose(predicted, fitted * norm + y.mean(0), atol=1e-10 * norm)
    residual = np.sum((predicted - y) ** 2) / norm**2
    assert_allclose(residual, disparity, atol=1e-12)
    assert_allclose(np.sin(procrustes_angle(moments)) ** 2, disparity, atol=1e-12)


def test_disparity_of_the_rotated_pair() -> None:
    x, y = fixture_a()
    residual = np.sum((fit_rigid(moments_of(x, y)).apply(x) - y) ** 2)
    assert_allclose(residual / np.sum((y - y.mean(0)) ** 2), 0.0153953849911399, rtol=1e-12)


def test_reflections_are_allowed() -> None:
    x = np.random.default_rng(0).standard_normal((30, 3))
    fitted = fit_rigid(moments_of(x, x * [1, 1, -1]))
    assert_allclose(fitted.matrix, np.diag([1.0, 1, -1]), atol=1e-12)
