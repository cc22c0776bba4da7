from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from repalign.core.conditions.fit import Condition, ConditionFitter
from repalign.core.conditions.kinds import CONDITION_NAMES, CONDITIONS
from repalign.core.factors.recovery import mean_correlation
from repalign.exceptions import InputError


def fit_condition(name: str, values: np.ndarray, seed: int = 0) -> Condition:
    return ConditionFitter(values).fit(name, seed)


def rotation(seed: int) -> np.ndarray:
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(6, 6)))[0]


def rotated_sources(seed: int, *, gaussian: bool = False) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    sources = rng.normal(size=(3000, 6)) if gaussian else rng.uniform(-1, 1, (3000, 6))
    return sources, 3 + 0.5 * sources @ rotation(seed + 100)


@pytest.mark.parametrize("name", CONDITION_NAMES)
def test_every_condition_is_one_affine_map_that_leaves_its_input_alone(name) -> None:
    _, values = rotated_sources(0)
    before = values.copy()

    condition = fit_condition(name, values)

    assert condition.name == condition.transform.kind == name
    assert_allclose(values, before)
    assert_allclose(
        condition.transform.inverse().apply(condition.transform.apply(values)), values, atol=1e-9
    )


@pytest.mark.parametrize("name", ["pca", "pca+ica", "pca+rotation"])
def test_whitened_conditions_have_unit_covariance(name) -> None:
    _, values = rotated_sources(0)
    latents = fit_condition(name, values).transform.apply(values)
    # The solver works in single precision.
    assert_allclose(np.cov(latents.T, bias=True), np.eye(6), atol=1e-5)


def test_ica_without_whitening_is_a_rotation_up_to_one_number() -> None:
    _, values = rotated_sources(0)
    values = values * [1, 1, 1, 1, 1, 1e-3]
    matrix = fit_condition("ica", values).transform.matrix
    gram = matrix.T @ matrix
    assert_allclose(gram / gram[0, 0], np.eye(6), atol=1e-5)


def test_raw_is_the_identity_to_the_bit() -> None:
    _, values = rotated_sources(0)
    assert fit_condition("raw", values).transform.apply(values).tolist() == values.tolist()


@pytest.mark.parametrize("seed", range(10))
def test_non_gaussian_sources_are_recovered_by_ica_and_by_nothing_else(seed: int) -> None:
    sources, values = rotated_sources(seed)
    recovered = {
        name: mean_correlation(sources, fit_condition(name, values).transform.apply(values)).value
        for name in CONDITION_NAMES
    }
    assert recovered["pca+ica"] > 0.99
    assert recovered["ica"] > 0.99
    assert max(recovered["raw"], recovered["pca"], recovered["pca+rotation"]) < 0.9


@pytest.mark.parametrize("seed", range(3))
def test_gaussian_sources_are_not_recovered_by_ica(seed: int) -> None:
    sources, values = rotated_sources(seed, gaussian=True)
    latents = fit_condition("pca+ica", values).transform.apply(values)
    assert mean_correlation(sources, latents).value < 0.9


def test_ica_without_whitening_is_blind_to_scale_and_offset() -> None:
    sources, values = rotated_sources(0)
    for scale in (0.01, 1.0, 100.0):
        moved = scale * values + 3
        condition = fit_condition("ica", moved)
        assert condition.n_iter > 1
        assert mean_correlation(sources, condition.transform.apply(moved)).value > 0.99


def test_ica_without_whitening_needs_equal_variances_and_ica_with_it_does_not() -> None:
    sources, _ = rotated_sources(0)
    values = (sources * np.linspace(1, 0.6, 6)) @ rotation(7)
    scores = {
        name: mean_correlation(sources, fit_condition(name, values).transform.apply(values)).value
        for name in ("ica", "pca+ica")
    }
    assert scores["pca+ica"] > 0.99
    assert scores["ica"] < 0.95


def test_ica_says_how_it_stopped() -> None:
    _, values = rotated_sources(0)
    for name in ("pca+ica", "ica"):
        condition = fit_condition(name, values)
        assert condition.converged
        assert condition.n_iter > 1
    assert fit_condition("pca", values).n_iter is None


def test_directions_that_do_not_vary_are_left_out_with_a_note() -> None:
    _, values = rotated_sources(0)
    values = np.column_stack([values, values.sum(axis=1), np.ones(3000)])
    for name in ("pca", "pca+ica", "pca+rotation"):
        condition = fit_condition(name, values)
        assert condition.transform.target_dim == 6
        assert "6 of 8" in condition.warnings[0]


def test_fewer_rows_than_columns_are_whitened_on_their_rank() -> None:
    values = np.random.default_rng(0).normal(size=(10, 30))
    latents = fit_condition("pca", values).transform.apply(values)
    assert latents.shape == (10, 9)
    assert_allclose(np.cov(latents.T, bias=True), np.eye(9), atol=1e-9)


def test_rows_that_do_not_vary_are_refused() -> None:
    with pytest.raises(InputError, match="vary"):
        fit_condition("pca", np.ones((5, 2)))


def test_the_random_rotation_follows_the_seed() -> None:
    _, values = rotated_sources(0)
    first, again, other = (
        fit_condition("pca+rotation", values, seed).transform.matrix for seed in (1, 1, 2)
    )
    assert first.tolist() == again.tolist()
    assert first.tolist() != other.tolist()


@pytest.mark.parametrize("kind", CONDITIONS, ids=lambda kind: kind.name)
def test_a_condition_is_random_exactly_when_it_says_so(kind) -> None:
    _, values = rotated_sources(0, gaussian=True)
    first, other = (fit_condition(kind.name, values, seed).transform.matrix for seed in (1, 2))
    assert (np.abs(first - other).max() > 1e-3) == kind.is_random


@pytest.mark.parametrize("kind", CONDITIONS, ids=lambda kind: kind.name)
def test_the_docs_define_every_condition(kind) -> None:
    docs = Path(__file__).parents[3] / "docs" / "disentangle.md"
    assert f"| `{kind.name}` | {kind.definition} |" in docs.read_text(encoding="utf-8")


def test_an_unknown_condition_is_refused() -> None:
    with pytest.raises(InputError, match=r"zca.*raw, pca"):
        fit_condition("zca", np.eye(3))


@pytest.mark.parametrize(("scale", "limit"), [(1e-162, "1e-25"), (1e40, r"1e\+25")])
def test_values_too_small_or_large_for_their_powers_are_refused(scale: float, limit: str) -> None:
    _, values = rotated_sources(0)
    with pytest.raises(InputError, match=f"representation.* {limit}"):
        fit_condition("raw", values * scale)
