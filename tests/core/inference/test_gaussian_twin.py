import numpy as np
import pytest
from scipy.stats import kurtosis

from repalign.core.ica.fit import fit_ica
from repalign.core.inference.gaussian_twin import TwinNull, draw_gaussian_twin, gaussian_twins
from repalign.core.maps.fitting import IcaPair, MapInputs, fit_maps
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


def efficiency_of_disjoint_halves(source: np.ndarray, target: np.ndarray) -> float:
    """ICA of the source on the first half of the rows, of the target on the second."""
    half = len(source) // 2
    (moments,) = pair_moments(ArrayRows(source), ArrayRows(target))
    fits = [
        fit_ica(ArrayRows(rows), mean=rows.mean(0), covariance=np.cov(rows.T, bias=True))
        for rows in (source[:half], target[half:])
    ]
    maps = fit_maps(("permutation", "rigid", "ica"), MapInputs(moments, IcaPair(*fits))).by_name
    permutation, rigid, ica = (judged.mean_error(source, target) for judged in maps.values())
    return (permutation - ica) / (permutation - rigid)


def test_a_twin_that_goes_through_the_procedure_is_where_gaussian_rows_are() -> None:
    mixing = np.linalg.qr(np.random.default_rng(9).standard_normal((40, 40)))[0]
    observed, twins = [], []
    for seed in range(4):
        x = np.random.default_rng(seed).standard_normal((150, 40))
        y = x @ mixing
        (moments,) = pair_moments(ArrayRows(x), ArrayRows(y))
        observed.append(efficiency_of_disjoint_halves(x, y))
        null = gaussian_twins(moments, 150, efficiency_of_disjoint_halves, n_twins=1, seed=seed)
        twins += null.values
    # Whitened by the whole twin's moments, twins were higher by a quarter at this size.
    assert np.mean(twins) == pytest.approx(np.mean(observed), abs=0.1)


def test_the_p_value_of_twins_counts_those_as_large() -> None:
    null = TwinNull((0.1, 0.2, 0.3))
    assert null.p_value(0.25) == 0.5
    assert null.p_value(0.2) == 0.75
    assert null.mean == pytest.approx(0.2)
    assert null.spread == pytest.approx(0.1)
    assert np.isnan(null.p_value(np.nan))
    assert np.isnan([TwinNull(()).p_value(0.1), TwinNull(()).mean, TwinNull((1.0,)).spread]).all()


def test_twins_on_which_the_number_is_not_defined_are_left_out() -> None:
    x = np.random.default_rng(0).standard_normal((30, 2))
    (moments,) = pair_moments(ArrayRows(x), ArrayRows(x))
    answers = iter([0.5, np.nan, 0.7])
    null = gaussian_twins(moments, 30, lambda *_: next(answers), n_twins=3, seed=0)
    assert null.values == (0.5, 0.7)
