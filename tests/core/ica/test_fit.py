import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.decomposition import FastICA

from repalign.core.ica.contrast import CONTRASTS
from repalign.core.ica.data import drawn_rows
from repalign.core.ica.fit import IcaFit, fit_ica
from repalign.core.ica.settings import IcaSettings
from repalign.core.rows import ArrayRows
from repalign.exceptions import InputError


def rotation(d: int, seed: int) -> np.ndarray:
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((d, d)))[0]


def fit(values: np.ndarray, *, memory_bytes: int = 2**31, **settings: object) -> IcaFit:
    exact = values.astype(np.float64)
    return fit_ica(
        ArrayRows(values),
        mean=exact.mean(0),
        covariance=np.cov(exact.T, bias=True),
        settings=IcaSettings(**settings),
        memory_bytes=memory_bytes,
    )


def recovered(found: IcaFit, values: np.ndarray, sources: np.ndarray) -> np.ndarray:
    """Largest |correlation| of any component with each source."""
    components = found.to_components().apply(values)
    k = components.shape[1]
    return np.abs(np.corrcoef(components.T, sources.T)[:k, k:]).max(axis=0)


def draw(kind: str, n: int, d: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    light = rng.uniform(-1, 1, (n, d))
    heavy = rng.laplace(size=(n, d))
    skewed = rng.standard_gamma(2.0, (n, d))
    return {
        "heavy tails": heavy,
        "light tails": light,
        "both tails": np.where(np.arange(d) % 2, heavy, light),
        "skewed": skewed,
    }[kind]


@pytest.mark.parametrize("contrast", ["logcosh", "exp", "cube"])
@pytest.mark.parametrize("kind", ["heavy tails", "light tails", "both tails", "skewed"])
def test_planted_sources_are_found(kind: str, contrast: str) -> None:
    sources = draw(kind, 4000, 8)
    values = sources * np.arange(1, 9) @ rotation(8, 1) + 3
    found = fit(values, contrast=contrast)
    assert found.converged
    assert found.warnings == ()
    # The cube is known to be inefficient on heavy tails.
    assert recovered(found, values, sources).min() > (0.95 if contrast == "cube" else 0.98)


def test_many_components_are_found_by_rounded_rows_first() -> None:
    sources = draw("both tails", 20_000, 80)
    values = (sources @ rotation(80, 1)).astype(np.float32)
    found = fit(values)
    assert found.converged
    assert recovered(found, values, sources).min() > 0.98
    assert found.n_identifiable == 80


def test_the_gradient_that_is_told_is_that_of_the_components() -> None:
    values = draw("heavy tails", 3000, 6) @ rotation(6, 1)
    found = fit(values)
    y = found.to_components().apply(values)
    product = np.tanh(y).T @ y / len(y)
    gradient = (product - product.T) / 2
    expected = np.sqrt(np.sum(gradient**2) / 30)
    assert_allclose(found.gradient_rms, expected, atol=1e-7)
    assert found.gradient_rms < 3e-5
    value = -np.abs(np.log(np.cosh(y)).mean(0) - CONTRASTS["logcosh"].gaussian_mean).sum()
    assert_allclose(found.contrast_value, value, rtol=1e-5)
    kurtosis = (y**4).mean(0) - 3
    assert_allclose(found.kurtosis, kurtosis, rtol=1e-4)


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("logcosh", lambda y: np.log(np.cosh(y))),
        ("exp", lambda y: -np.exp(-0.5 * y * y)),
        ("cube", lambda y: y**4 / 4),
    ],
)
def test_gaussian_means_of_the_contrasts(name: str, function: object) -> None:
    points, weights = np.polynomial.hermite_e.hermegauss(180)
    expected = float(weights @ function(points) / weights.sum())
    assert_allclose(CONTRASTS[name].gaussian_mean, expected, rtol=1e-9)


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
    values = draw("heavy tails", 2000, 6) @ rotation(6, 1) + 5
    found = fit(values)
    components = found.to_components().apply(values)
    assert_allclose(components @ found.mixing.T + found.mean, values, atol=1e-12)
    assert_allclose(np.cov(components.T, bias=True), np.eye(6), atol=1e-10)


def test_rows_on_a_hyperplane_give_one_component_less() -> None:
    rows = np.random.default_rng(0).laplace(size=(2000, 20)).astype(np.float32)
    normed = (rows - rows.mean(1, keepdims=True)) / rows.std(1, keepdims=True)
    found = fit(normed)
    assert found.rank == 19
    back = found.to_components().apply(normed) @ found.mixing.T + found.mean
    assert_allclose(back, normed, atol=1e-5)


def test_dead_columns_and_few_rows_limit_the_rank() -> None:
    values = draw("heavy tails", 300, 6) * [1, 0, 1, 1, 0, 1]
    assert fit(values).rank == 4
    assert fit(draw("heavy tails", 12, 30)).rank == 11


def test_gaussian_rows_are_said_to_be_unidentifiable() -> None:
    values = np.random.default_rng(0).standard_normal((2000, 20))
    found = fit(values)
    assert found.n_identifiable is not None
    assert found.n_identifiable <= 2
    assert any("Gaussian" in warning for warning in found.warnings)


def test_a_fit_that_did_not_converge_says_so() -> None:
    values = np.random.default_rng(0).standard_normal((2000, 20))
    found = fit(values, max_passes=5)
    assert not found.converged
    assert found.n_iter == 5
    assert "5 passes" in found.warnings[0]


def test_few_rows_for_many_components_are_said() -> None:
    found = fit(draw("heavy tails", 150, 30))
    assert any("0.35" in warning for warning in found.warnings)


def test_the_same_input_and_seed_give_the_same_fit() -> None:
    values = draw("heavy tails", 1000, 5)
    assert np.array_equal(fit(values, seed=3).unmixing, fit(values, seed=3).unmixing)
    assert not np.array_equal(fit(values, seed=4).unmixing, fit(values, seed=3).unmixing)


def test_rows_that_exceed_the_memory_are_streamed_to_the_same_fit() -> None:
    values = draw("both tails", 20_000, 8) @ rotation(8, 1)
    resident, streamed = fit(values), fit(values, memory_bytes=500_000)
    # Of an arbitrary sign not even rounding can be expected to leave it.
    turned = np.sign(np.einsum("ij,ij->i", streamed.unmixing, resident.unmixing))
    sign = np.where(resident.is_sign_arbitrary, turned, 1.0)[:, None]
    assert_allclose(streamed.unmixing, sign * resident.unmixing, atol=1e-3)
    assert streamed.converged


@pytest.mark.parametrize("solver", ["picard", "sklearn"])
def test_components_have_one_order_and_sign_whatever_the_start(solver: str) -> None:
    skew = np.random.default_rng(0).standard_gamma([1, 2, 3, 5, 8], (5000, 5))
    values = skew @ rotation(5, 1)
    first, second = (fit(values, solver=solver, seed=seed) for seed in (1, 2))
    assert_allclose(second.unmixing, first.unmixing, atol=0.05)
    components = first.to_components().apply(values)
    assert not first.is_sign_arbitrary.any()
    assert ((components**3).mean(0) > 0).all()
    far = np.abs(np.log(np.cosh(components)).mean(0) - CONTRASTS["logcosh"].gaussian_mean)
    assert (np.diff(far) < 0).all()
    assert_allclose(first.kurtosis, (components**4).mean(0) - 3, rtol=1e-3)
    assert_allclose(components @ first.mixing.T + first.mean, values, atol=1e-9)


def test_the_sign_of_a_symmetric_component_is_said_to_be_arbitrary() -> None:
    # A sample and its mirror image: E y³ is zero up to rounding, whatever the rotation.
    half = draw("heavy tails", 1000, 3)
    assert fit(np.vstack([half, -half])).is_sign_arbitrary.all()


@pytest.mark.parametrize("memory_bytes", [300_000, 2**31])
def test_a_sample_finds_light_tails_and_components_are_whitened_by_all_rows(memory_bytes) -> None:
    sources = draw("both tails", 6000, 5)
    values = sources @ rotation(5, 1)
    found = fit(values, n_fit_rows=1500, memory_bytes=memory_bytes)
    assert found.n_fit_rows == 1500
    assert recovered(found, values, sources).min() > 0.98
    back = found.to_components().apply(values) @ found.mixing.T + found.mean
    assert_allclose(back, values, atol=1e-10)
    assert_allclose(np.cov(found.to_components().apply(values).T, bias=True), np.eye(5), atol=1e-9)


def test_a_sample_is_unmixed_by_its_own_whitening() -> None:
    values = draw("heavy tails", 6000, 4) @ rotation(4, 1)
    found = fit(values, n_fit_rows=120)
    alone = fit(values[drawn_rows(6000, 120, seed=0)])
    # the unmixing of the sample, turned into the nearest that whitens all rows
    left, spread, right = np.linalg.svd(alone.unmixing @ found.mixing)
    matched = np.abs(left @ right)
    assert spread.max() > 1.05
    assert_allclose(matched.max(axis=0), 1, atol=1e-3)


def test_a_sample_smaller_than_the_rank_is_refused() -> None:
    with pytest.raises(InputError, match=r"6.* 8"):
        fit(draw("heavy tails", 300, 8), n_fit_rows=6)


def test_the_leading_directions_can_be_asked_for() -> None:
    values = draw("heavy tails", 2000, 6) * [9, 8, 7, 1, 1, 1]
    assert fit(values, max_rank=3).rank == 3


def test_a_start_at_the_principal_directions_finds_the_same() -> None:
    sources = draw("heavy tails", 3000, 5)
    values = sources * np.arange(1, 6)
    assert recovered(fit(values, start="pca"), values, sources).min() > 0.98


def test_the_sklearn_solver_is_fastica_itself() -> None:
    values = draw("heavy tails", 1500, 5) @ rotation(5, 1)
    found = fit(values, solver="sklearn", seed=4, max_passes=200)
    reference = FastICA(whiten="unit-variance", random_state=4).fit(values)
    order = np.abs(found.unmixing @ reference.mixing_).argmax(axis=1)
    sign = np.sign(np.diag(found.unmixing @ reference.mixing_[:, order]))
    assert_allclose(found.unmixing, sign[:, None] * reference.components_[order])
    assert_allclose(found.mixing, sign * reference.mixing_[:, order])
    assert found.n_iter == reference.n_iter_


def test_the_sklearn_solver_is_given_the_numerical_rank() -> None:
    low = draw("heavy tails", 2000, 4) @ np.random.default_rng(1).standard_normal((4, 9))
    found = fit(low, solver="sklearn", max_passes=200)
    assert found.rank == 4
    back = found.to_components().apply(low) @ found.mixing.T + found.mean
    assert_allclose(back, low, atol=1e-8)


def test_without_whitening_the_scale_of_the_rows_does_not_matter() -> None:
    sources = draw("light tails", 3000, 4) * np.sqrt(3)
    values = sources @ rotation(4, 1)
    found = fit(values, solver="sklearn", whitening="none", max_passes=200)
    tiny = fit(1e-6 * values, solver="sklearn", whitening="none", max_passes=200)
    assert recovered(found, values, sources).min() > 0.98
    assert recovered(tiny, 1e-6 * values, sources).min() > 0.98
    assert_allclose(found.mixing @ found.unmixing, np.eye(4), atol=1e-12)


def test_ica_without_whitening_by_the_picard_solver_is_refused() -> None:
    with pytest.raises(InputError, match="sklearn"):
        fit(draw("heavy tails", 100, 3), whitening="none")


@pytest.mark.parametrize("whitening", ["pca", "none"])
def test_rows_that_do_not_vary_are_refused(whitening: str) -> None:
    with pytest.raises(InputError, match="vary"):
        fit(np.ones((10, 3)), whitening=whitening, solver="sklearn")
