import re

import numpy as np
import pytest
from numpy.testing import assert_allclose

from repalign.core.factors.encoding import encode_factors
from repalign.core.factors.infomec import (
    REFERENCE,
    STANDARD,
    TRAINING,
    MutualInformation,
    compactness,
    compactness_gap,
    explicitness,
    explicitness_per_factor,
    infomec_preset,
    modularity,
    modularity_gap,
    normalised_mi,
    uninformative,
)

GRID = np.tile(np.stack(np.meshgrid(range(4), range(3), range(5)), axis=-1).reshape(-1, 3), (10, 1))


def information(case, name: str, settings=REFERENCE):
    factors, latents = case(name)
    return normalised_mi(factors, latents, settings, np.random.default_rng(0))


@pytest.mark.parametrize("name", ["identity", "rotated", "inactive"])
def test_modularity_and_compactness_agree_with_the_reference(name: str, oracles, case) -> None:
    found = information(case, name)
    assert modularity(found, REFERENCE).value == pytest.approx(oracles[name]["infom"], abs=1e-6)
    assert compactness(found, REFERENCE).value == pytest.approx(oracles[name]["infoc"], abs=1e-6)
    assert found.active.tolist() == oracles[name]["active"]


def test_a_latent_is_active_beyond_a_fraction_of_the_widest_range() -> None:
    factors = encode_factors({"x": GRID[:, 0], "y": GRID[:, 1]})
    widest = 1.0 * REFERENCE.range_divisor
    latents = np.linspace(0, 1, len(GRID))[:, None] * [widest, 1.1, 0.9, 0.1, 0.1]
    found = normalised_mi(factors, latents, REFERENCE, np.random.default_rng(0))
    assert found.active.tolist() == [True, True, False, False, False]


@pytest.mark.parametrize("name", ["identity", "rotated", "inactive", "noise"])
def test_the_training_preset_agrees_with_the_training_code(name: str, oracles, case) -> None:
    oracle = oracles[name]["training_script_variant_k3_div8"]
    found = information(case, name, TRAINING)
    assert modularity(found, TRAINING).value == pytest.approx(oracle["infom"], abs=1e-6)
    if oracle["infoc"] is not None:
        assert compactness(found, TRAINING).value == pytest.approx(oracle["infoc"], abs=1e-6)
    assert modularity_gap(found).value == pytest.approx(oracle["gap_modularity"], abs=2e-6)
    assert compactness_gap(found).value == pytest.approx(
        oracle["gap_compactness_unmasked"], abs=2e-6
    )
    assert found.active.tolist() == oracle["active"]


def test_discrete_latents_agree_with_the_reference(oracles, case) -> None:
    settings = infomec_preset("reference", discrete_latents=True)
    found = information(case, "discrete", settings)
    oracle = oracles["discrete"]
    assert_allclose(found.nmi, oracle["nmi"], atol=2e-6)
    assert modularity(found, settings).value == pytest.approx(oracle["infom"], abs=1e-6)
    assert compactness(found, settings).value == pytest.approx(oracle["infoc"], abs=1e-6)
    assert found.active.tolist() == oracle["active"]


def test_tied_latents_agree_up_to_the_jitter(oracles, case) -> None:
    found = information(case, "exact_identity")
    oracle = oracles["exact_identity"]
    assert modularity(found, REFERENCE).value == pytest.approx(oracle["infom"], abs=0.02)
    assert compactness(found, REFERENCE).value == pytest.approx(oracle["infoc"], abs=0.02)
    assert found.active.tolist() == oracle["active"]


@pytest.mark.parametrize(
    "name", ["identity", "rotated", "inactive", "noise", "discrete", "exact_identity"]
)
def test_explicitness_agrees_with_the_reference(name: str, case, oracles) -> None:
    factors, latents = case(name)
    is_discrete = name == "discrete"

    score, _ = explicitness(factors, latents, discrete_latents=is_discrete)

    # lbfgs stops at 100 iterations; two versions of the reference differ by 1e-3.
    assert score.value == pytest.approx(oracles[name]["infoe"], abs=1.5e-3)
    per_factor, _ = explicitness_per_factor(factors, latents, discrete_latents=is_discrete)
    levels = np.array([3, 4, 6, 8])
    losses = (1 - per_factor) * np.log(levels)
    assert_allclose(losses, oracles[name]["cond_log_loss"], atol=8e-3)
    assert_allclose(np.log(levels), oracles[name]["null_log_loss"], atol=1e-6)


@pytest.mark.parametrize(
    ("latents", "infom", "infoc"),
    [
        (GRID[:, [2, 0, 1]], 1.0, 1.0),
        (np.column_stack([GRID, np.full(len(GRID), 3)]), 1.0, 1.0),
        (np.column_stack([GRID, GRID]), 1.0, 0.4),
        (np.column_stack([4 * GRID[:, 1] + GRID[:, 0], GRID[:, 2]]), 0.625, 1.0),
    ],
    ids=["permuted", "constant latent", "twice", "two factors in one code"],
)
def test_values_that_follow_by_hand(
    latents: np.ndarray, infom: float, infoc: float, as_factors
) -> None:
    settings = infomec_preset("reference", discrete_latents=True)
    found = normalised_mi(
        as_factors(GRID), latents.astype(float), settings, np.random.default_rng(0)
    )
    assert modularity(found, settings).value == pytest.approx(infom, abs=1e-12)
    assert compactness(found, settings).value == pytest.approx(infoc, abs=1e-12)


def test_a_factor_that_no_latent_knows_is_undefined_or_left_out_by_choice(as_factors) -> None:
    latents = GRID[:, :2].astype(float)
    strict = infomec_preset("reference", discrete_latents=True)
    lenient = infomec_preset("standard", discrete_latents=True)
    found = normalised_mi(as_factors(GRID), latents, strict, np.random.default_rng(0))

    assert modularity(found, strict).value == pytest.approx(1.0)
    assert "1 factor" in compactness(found, strict).reason
    assert compactness(found, lenient).value == pytest.approx(1.0)
    assert uninformative(found) == ((), (2,))


def test_noise_is_undefined_in_the_reference_and_its_empty_latent_is_named(oracles, case) -> None:
    found = information(case, "noise")
    assert oracles["noise"]["infom"] is None
    assert "1 latent" in modularity(found, REFERENCE).reason
    assert modularity(found, STANDARD).value is not None
    assert uninformative(found)[0] == (0,)
    assert compactness(found, REFERENCE).value == pytest.approx(0.778977, abs=1e-6)


def test_one_active_latent_and_one_factor_are_undefined_with_a_reason() -> None:
    rng = np.random.default_rng(0)
    factors = encode_factors({"a": np.arange(60) % 3})
    found = normalised_mi(factors, rng.normal(size=(60, 1)), STANDARD, rng)
    assert "factors" in modularity(found, STANDARD).reason
    assert "active latents" in compactness(found, STANDARD).reason
    assert "factors" in modularity_gap(found).reason
    assert "latents" in compactness_gap(found).reason


def test_all_constant_latents_are_undefined_with_a_reason(as_factors) -> None:
    rng = np.random.default_rng(0)
    factors = as_factors(np.column_stack([np.arange(60) % 3, np.arange(60) % 2]))
    found = normalised_mi(factors, np.ones((60, 2)), STANDARD, rng)
    assert "no information" in modularity(found, STANDARD).reason
    assert "no information" in compactness(found, STANDARD).reason
    assert "active" in modularity_gap(found).reason
    score, _ = explicitness(factors, np.ones((60, 2)))
    assert score.value == pytest.approx(0.0, abs=1e-9)


def test_explicitness_of_a_continuous_factor_is_its_r_squared() -> None:
    rng = np.random.default_rng(0)
    signal, noise = rng.normal(size=(2, 20_000))
    factors = encode_factors({"size": signal + noise})
    score, notes = explicitness(factors, signal[:, None])
    assert score.value == pytest.approx(0.5, abs=0.02)
    assert notes == ()


def test_explicitness_with_fewer_rows_than_latents_is_undefined() -> None:
    factors = encode_factors({"a": np.arange(6) % 2})
    score, _ = explicitness(factors, np.random.default_rng(0).normal(size=(6, 9)))
    assert re.search(r"\b6 .*\b9 ", score.reason)


def test_a_regression_that_stops_early_is_named() -> None:
    rng = np.random.default_rng(0)
    factors = encode_factors({"hue": np.arange(2000) % 20})
    latents = rng.normal(size=(2000, 30)) * 10.0 ** -np.arange(30)
    latents[:, 0] += factors.values[:, 0]
    _, notes = explicitness(factors, latents)
    assert notes == () or "hue" in notes[0]


@pytest.mark.parametrize("n_rows", [400, 1600])
def test_modularity_of_noise_is_that_of_noise_cut_off_at_zero_whatever_the_rows(
    n_rows: int,
) -> None:
    rng = np.random.default_rng(0)
    levels = {f"factor {number}": rng.integers(0, 6, n_rows) for number in range(4)}
    latents = rng.standard_normal((n_rows, 60))
    found = modularity(normalised_mi(encode_factors(levels), latents, STANDARD, rng), STANDARD)
    cut = np.maximum(rng.standard_normal((4, 20_000)), 0)
    noise = MutualInformation(nmi=cut, active=np.ones(20_000, dtype=bool))
    expected = modularity(noise, STANDARD).value
    assert expected is not None
    assert found.value is not None
    assert expected == pytest.approx(0.65, abs=0.01)
    # 60 latents, each with a standard deviation of about .3
    assert found.value == pytest.approx(expected, abs=0.12)
