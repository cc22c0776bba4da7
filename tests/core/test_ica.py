import numpy as np
import pytest
from numpy.testing import assert_allclose

from repalign.core.ica import IcaFit, IcaSettings, fit_ica
from repalign.core.ica_matching import match_components
from repalign.core.rows import ArrayRows
from repalign.exceptions import InputError
from tests.core.paired_data import moments_of


def rotation(d: int, seed: int) -> np.ndarray:
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((d, d)))[0]


def fit(values: np.ndarray, **settings: object) -> IcaFit:
    covariance = np.cov(values.T.astype(np.float64), bias=True)
    mean = values.mean(0, dtype=np.float64)
    return fit_ica(
        ArrayRows(values), mean=mean, covariance=covariance, settings=IcaSettings(**settings)
    )


@pytest.mark.parametrize("contrast", ["logcosh", "exp", "cube"])
def test_planted_sources_are_found(contrast: str) -> None:
    sources = np.random.default_rng(0).laplace(size=(4000, 8))
    values = sources * np.arange(1, 9) @ rotation(8, 1) + 3
    found = fit(values, contrast=contrast)
    components = found.to_components().apply(values)
    cross = np.abs(np.corrcoef(components.T, sources.T)[:8, 8:])
    assert found.converged
    assert cross.max(axis=0).min() > 0.98


@pytest.mark.parametrize("kind", ["uniform", "levels", "mixed"])
@pytest.mark.parametrize("seed", range(3))
def test_sources_of_lighter_tails_than_the_gaussian_are_found(kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    sources = rng.uniform(-1, 1, (3000, 12))
    if kind == "levels":
        sources = rng.integers(0, 5, (3000, 12)).astype(np.float64)
    if kind == "mixed":
        sources[:, :6] = rng.laplace(size=(3000, 6))
    found = fit(sources @ rotation(12, seed + 50))
    components = found.to_components().apply(sources @ rotation(12, seed + 50))
    cross = np.abs(np.corrcoef(components.T, sources.T)[:12, 12:])
    assert found.converged
    assert cross.max(axis=0).min() > 0.97


def test_components_come_back_through_the_mixing() -> None:
    values = np.random.default_rng(0).laplace(size=(2000, 6)) @ rotation(6, 1) + 5
    found = fit(values)
    components = found.to_components().apply(values)
    assert_allclose(components @ found.mixing.T + found.mean, values, atol=1e-12)
    assert_allclose(np.cov(components.T, bias=True), np.eye(6), atol=1e-10)


def test_rows_on_a_hyperplane_give_one_component_less() -> None:
    rows = np.random.default_rng(0).laplace(size=(2000, 20)).astype(np.float32)
    normed = (rows - rows.mean(1, keepdims=True)) / rows.std(1, keepdims=True)
    assert fit(normed).rank == 19


def test_two_fits_of_shared_sources_match() -> None:
    sources = np.random.default_rng(0).laplace(size=(3000, 10))
    x, y = sources @ rotation(10, 1), sources @ rotation(10, 2)
    matching = match_components(moments_of(x, y), fit(x), fit(y))
    assert matching.mean_correlation > 0.99


def test_the_same_input_and_seed_give_the_same_fit() -> None:
    values = np.random.default_rng(0).laplace(size=(1000, 5))
    first, second = fit(values, start="random", seed=3), fit(values, start="random", seed=3)
    assert np.array_equal(first.unmixing, second.unmixing)


def test_ica_without_whitening_by_the_picard_solver_is_refused() -> None:
    with pytest.raises(InputError, match="expected the sklearn solver"):
        fit(np.random.default_rng(0).laplace(size=(100, 3)), whitening="none")


def test_rows_that_do_not_vary_are_refused() -> None:
    with pytest.raises(InputError, match="do not vary"):
        fit(np.ones((10, 3)))
