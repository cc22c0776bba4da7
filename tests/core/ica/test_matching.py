from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.decomposition import FastICA

from repalign.core.affine import MappedRows
from repalign.core.ica.components import match_components
from repalign.core.ica.fit import IcaFit, fit_ica
from repalign.core.ica.settings import IcaSettings
from repalign.core.linalg import match_signed
from repalign.core.maps import fit_map, ica_map, matched_components_map
from repalign.core.row_errors import row_errors
from repalign.core.rows import ArrayRows
from repalign.core.scale import diameter
from tests.core.paired_data import moments_of


def rotation(d: int, seed: int) -> np.ndarray:
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((d, d)))[0]


def fit(values: np.ndarray, **settings: object) -> IcaFit:
    return fit_ica(
        ArrayRows(values),
        mean=values.mean(0),
        covariance=np.cov(values.T, bias=True),
        settings=IcaSettings(**settings),
    )


def latents(kind: str, n: int = 2000, d: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """Two rotated copies of the same latents, or of unrelated ones."""
    rs = np.random.RandomState(0)
    first = rs.randn(n, d) if kind == "gaussian" else rs.laplace(size=(n, d))
    second = rs.laplace(size=(n, d)) if kind == "unrelated" else first
    return first @ rotation(d, 10), second @ rotation(d, 20)


def efficiency(x: np.ndarray, y: np.ndarray, *, disjoint: bool) -> tuple[float, float]:
    """ICA efficiency and mean matched correlation; the fits see the same or disjoint rows."""
    half = len(x) // 2
    source, target = (fit(x[:half]), fit(y[half:])) if disjoint else (fit(x), fit(y))
    moments = moments_of(x, y)
    matched = match_components(moments, source, target)
    maps = [
        fit_map("permutation", moments),
        fit_map("rigid", moments),
        ica_map(moments, source, target, matched),
    ]
    permutation, rigid, ica = row_errors(ArrayRows(x), ArrayRows(y), maps).mean(1)
    return float((permutation - ica) / (permutation - rigid)), float(matched.value.mean())


def test_shared_latents_of_heavy_tails_are_matched() -> None:
    same, correlation = efficiency(*latents("laplace"), disjoint=False)
    assert same > 0.95
    assert correlation > 0.99
    apart, _ = efficiency(*latents("laplace"), disjoint=True)
    assert 0.6 < apart < 0.8


def test_shared_gaussian_latents_are_not() -> None:
    same, _ = efficiency(*latents("gaussian"), disjoint=False)
    apart, _ = efficiency(*latents("gaussian"), disjoint=True)
    assert same < 0.3
    assert abs(apart) < 0.05


def test_unrelated_latents_have_no_efficiency() -> None:
    value, _ = efficiency(*latents("unrelated"), disjoint=False)
    assert value < 0.06


def test_equal_rows_have_no_error() -> None:
    x, _ = latents("gaussian", n=500, d=6)
    moments = moments_of(x, x)
    matched = match_components(moments, fit(x), fit(x))
    fitted = ica_map(moments, fit(x), fit(x), matched)
    assert row_errors(ArrayRows(x), ArrayRows(x), [fitted]).max() < 1e-12


def test_correlations_are_those_of_the_matched_components() -> None:
    x, y = latents("laplace", n=800, d=5)
    source, target = fit(x), fit(y)
    matched = match_components(moments_of(x, y), source, target)
    pairs = matched
    a = source.to_components().apply(x)[:, pairs.source] * pairs.sign
    b = target.to_components().apply(y)[:, pairs.target]
    assert_allclose(np.diag(np.corrcoef(a.T, b.T)[:5, 5:]), matched.value, rtol=1e-10)


def test_the_map_is_its_three_steps() -> None:
    x, y = latents("laplace", n=800, d=5)
    source, target = fit(x), fit(y)
    moments = moments_of(x, y)
    pairs = match_components(moments, source, target)
    components = np.zeros((800, 5))
    seen = source.to_components().apply(x)[:, pairs.source] * pairs.sign
    components[:, pairs.target] = seen
    expected = components @ target.mixing.T + target.mean
    assert_allclose(ica_map(moments, source, target, pairs).apply(x), expected, atol=1e-10)
    between = matched_components_map(moments, source, target, pairs)
    assert_allclose(between.apply(x), components, atol=1e-10)


def test_components_of_the_opposite_sign_are_turned() -> None:
    x, y = latents("laplace", n=800, d=5)
    source, target = fit(x), fit(y)
    turned = replace(target, unmixing=-target.unmixing, mixing=-target.mixing)
    moments = moments_of(x, y)
    plain, opposite = (
        matched_components_map(moments, source, fit, match_components(moments, source, fit))
        for fit in (target, turned)
    )
    assert_allclose(opposite.matrix, -plain.matrix, atol=1e-12)


@pytest.mark.parametrize("n_columns", [3, 5])
def test_one_global_scale_is_the_best_one(n_columns: int) -> None:
    x, y = latents("laplace", n=800, d=5)
    x = x[:, :n_columns]
    y = y + np.random.default_rng(5).standard_normal(y.shape)
    source, target = fit(x), fit(y)
    moments = moments_of(x, y)
    pairs = match_components(moments, source, target)
    plain = ica_map(moments, source, target, pairs).matrix
    scaled = ica_map(moments, source, target, pairs, scale=True)
    best = np.sum((scaled.apply(x) - y) ** 2)
    assert_allclose(scaled.matrix / plain, (scaled.matrix / plain)[0, 0])
    centred, wanted = x - x.mean(0), y - y.mean(0)
    for factor in (0.99, 1.01):
        assert np.sum((factor * centred @ scaled.matrix - wanted) ** 2) > best


def test_components_have_a_space_of_their_own() -> None:
    x, y = latents("laplace", n=800, d=5)
    source, target = fit(x), fit(y)
    moments = moments_of(x, y)
    pairs = match_components(moments, source, target)
    components = MappedRows(ArrayRows(y), target.to_components())
    between = matched_components_map(moments, source, target, pairs)
    (errors,) = row_errors(ArrayRows(x), components, [between])
    reach = diameter(components)
    assert errors.mean() / reach.value < 0.01


def test_widths_and_ranks_may_differ() -> None:
    x, y = latents("laplace", n=800, d=6)
    x[:, 5] = 0
    source, target = fit(x[:, :5]), fit(y)
    moments = moments_of(x[:, :5], y)
    pairs = match_components(moments, source, target)
    fitted = ica_map(moments, source, target, pairs)
    assert (fitted.source_dim, fitted.target_dim) == (5, 6)
    between = matched_components_map(moments, source, target, pairs)
    assert np.count_nonzero(np.abs(between.matrix).sum(0)) == 5
    assert_allclose(between.apply(x[:, :5]).mean(0), 0, atol=1e-10)


def error_of(source: np.ndarray, target: np.ndarray, mixing: np.ndarray, y: np.ndarray) -> float:
    """ICA error over the diameter from two sets of components, written out plainly."""
    pairs = match_signed(source.T @ target)
    predicted = np.zeros_like(target)
    predicted[:, pairs.target] = source[:, pairs.source] * pairs.sign
    residual = predicted @ mixing.T + y.mean(0) - y
    return float(np.linalg.norm(residual, axis=1).mean()) / diameter(ArrayRows(y)).value


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(50))
def test_random_problems_agree_with_fastica_of_sklearn(seed: int) -> None:
    rng = np.random.default_rng(seed)
    d, n = int(rng.integers(2, 7)), int(rng.integers(1000, 2000))
    sources = rng.laplace(size=(n, d)) * rng.uniform(0.5, 2, d)
    x = sources @ rotation(d, seed) + 1
    y = 0.6 * (sources + 0.05 * rng.standard_normal((n, d))) @ rotation(d, seed + 100) - 2
    theirs = [
        FastICA(whiten="unit-variance", random_state=0, tol=1e-9, max_iter=2000).fit(values)
        for values in (x, y)
    ]
    expected = error_of(theirs[0].transform(x), theirs[1].transform(y), theirs[1].mixing_, y)
    source, target = fit(x), fit(y)
    moments = moments_of(x, y)
    fitted = ica_map(moments, source, target, match_components(moments, source, target))
    (errors,) = row_errors(ArrayRows(x), ArrayRows(y), [fitted])
    assert_allclose(errors.mean() / diameter(ArrayRows(y)).value, expected, atol=1e-3)
