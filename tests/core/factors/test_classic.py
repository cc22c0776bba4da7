import numpy as np
import pytest

from repalign.core.factors.classic import (
    binned_mi,
    dci,
    importance_completeness,
    importance_disentanglement,
    mutual_information_gap,
    ranking_explicitness,
    separated_predictability,
    squared_modularity,
)
from repalign.core.factors.encoding import Factors, encode_factors


def as_numbers(factors: Factors) -> Factors:
    """The same factors, declared continuous."""
    columns = dict(zip(factors.names, factors.values.T, strict=True))
    return encode_factors(columns, kinds=dict.fromkeys(columns, "continuous"))


CONTINUOUS_CASES = ["identity", "rotated", "inactive", "noise", "exact_identity"]


@pytest.mark.parametrize("name", CONTINUOUS_CASES)
def test_scores_agree_with_the_reference(name: str, case, oracles) -> None:
    factors, latents = case(name)
    oracle = oracles[name]

    mi = binned_mi(factors, latents)

    assert mutual_information_gap(factors, mi).value == pytest.approx(
        oracle["dlib_mig_20bins"], abs=2e-6
    )
    assert squared_modularity(mi).value == pytest.approx(oracle["dlib_modularity_20bins"], abs=2e-6)
    assert separated_predictability(as_numbers(factors), latents).value == pytest.approx(
        oracle["dlib_sap_continuous"], abs=2e-6
    )
    assert separated_predictability(factors, latents).value == pytest.approx(
        oracle["dlib_sap_discrete_np_seed0"], abs=0.01
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["identity", "rotated"])
def test_dci_agrees_with_the_reference(name: str, case, oracles) -> None:
    factors, latents = case(name)
    oracle = oracles[name]["dlib_dci_np_seed0"]

    disentanglement, completeness, test, train = dci(factors, latents, seed=0)

    assert disentanglement.value == pytest.approx(oracle["disentanglement"], abs=2e-3)
    assert completeness.value == pytest.approx(oracle["completeness"], abs=2e-3)
    assert test.value == pytest.approx(oracle["informativeness_test"], abs=2e-3)
    assert train.value == pytest.approx(oracle["informativeness_train"], abs=2e-3)


@pytest.mark.parametrize(
    ("mi", "expected"),
    [
        (np.eye(3), 1.0),
        (np.array([[1.0, 0, 0], [0, 1.0, 0], [0, 0, 0.0]]), 2 / 3),
        (np.zeros((3, 3)), 0.0),
        (np.array([[1.0, 0], [1.0, 0]] + [[0, 1.0]] + [[0, 0]] * 7), None),
    ],
    ids=["diagonal", "one empty code", "all empty", "shared"],
)
def test_modularity_by_hand(mi: np.ndarray, expected: float | None) -> None:
    value = squared_modularity(mi).value
    if expected is None:
        # Ten factors: the first latent holds two of them equally, the second holds one.
        assert value == pytest.approx(((1 - 1 / 9) + 1) / 2, abs=1e-15)
    else:
        assert value == pytest.approx(expected, abs=1e-15)


def test_one_code_for_two_of_ten_factors_by_hand() -> None:
    mi = np.diag(np.r_[1.0, np.zeros(9)])
    mi[1, 0] = 1.0
    shared = squared_modularity(mi[:, :1])
    assert shared.value == pytest.approx(1 - 1 / 9, abs=1e-15)

    importances = np.zeros((10, 10))
    importances[0, :2] = 1.0
    assert importance_disentanglement(importances).value == pytest.approx(
        1 - np.log(2) / np.log(10), abs=1e-9
    )
    assert importance_completeness(importances.T).value == pytest.approx(
        1 - np.log(2) / np.log(10), abs=1e-9
    )
    assert importance_completeness(importances).value == pytest.approx(1.0, abs=1e-8)


def test_dci_reads_a_diagonal_code_as_disentangled(as_factors) -> None:
    rng = np.random.default_rng(0)
    sources = rng.integers(0, 2, (300, 2))
    latents = np.column_stack([sources + 0.01 * rng.normal(size=(300, 2)), rng.normal(size=300)])
    scores = {score.name: score.value for score in dci(as_factors(sources), latents, seed=0)}
    assert scores["DCI-disentanglement"] == pytest.approx(1.0, abs=0.02)
    assert scores["DCI-informativeness"] == pytest.approx(1.0)


def test_dci_of_a_continuous_factor_is_scored_by_r_squared() -> None:
    rng = np.random.default_rng(0)
    size = rng.uniform(size=400)
    factors = encode_factors({"size": size, "colour": np.arange(400) % 2})
    latents = np.column_stack([size, np.arange(400) % 2 + 0.01 * rng.normal(size=400)])
    scores = {score.name: score.value for score in dci(factors, latents, seed=0)}
    assert scores["DCI-informativeness"] == pytest.approx(1.0, abs=0.01)
    assert scores["DCI-disentanglement"] == pytest.approx(1.0, abs=0.05)


def test_ranking_explicitness_is_one_for_separable_and_half_for_noise(case, as_factors) -> None:
    factors, latents = case("exact_identity")
    assert ranking_explicitness(factors, latents[:, :1]).value is not None
    two_classes = as_factors(np.arange(400)[:, None] % 2)
    exact = ranking_explicitness(two_classes, two_classes.values)
    noise = ranking_explicitness(*case("noise"))
    assert exact.value == pytest.approx(1.0)
    assert noise.value == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize("name", ["identity", "rotated", "exact_identity"])
def test_ranking_explicitness_does_not_hang_on_the_scale_of_latents(name: str, case) -> None:
    """Unscaled, the penalty of the read-out took a thousandth of the latents to .81."""
    factors, latents = case(name)
    value = ranking_explicitness(factors, latents).value
    assert value > 0.999
    assert ranking_explicitness(factors, latents * 1e-3).value == pytest.approx(value, abs=1e-6)


def test_one_latent_or_one_factor_is_undefined_with_a_reason(as_factors) -> None:
    factors = as_factors(np.arange(90)[:, None] % 3)
    latent = np.arange(90.0)[:, None]
    mi = binned_mi(factors, latent)
    assert "latents" in mutual_information_gap(factors, mi).reason
    assert "factors" in squared_modularity(mi).reason
    assert "latents" in separated_predictability(factors, latent).reason
    assert "factors" in importance_disentanglement(np.ones((1, 1))).reason
    assert "importance" in importance_completeness(np.zeros((2, 2))).reason


def test_a_factor_with_one_class_in_the_training_rows_is_undefined_with_a_reason(
    as_factors,
) -> None:
    factors = as_factors(np.r_[np.zeros(80, dtype=int), np.ones(10, dtype=int)][:, None])
    latents = np.random.default_rng(0).normal(size=(90, 2))
    assert "factor0" in separated_predictability(factors, latents).reason
    assert all("factor0" in score.reason for score in dci(factors, latents, seed=0))
    assert "two classes" in ranking_explicitness(factors, latents).reason


def test_constant_latents_score_zero(case) -> None:
    factors, _ = case("identity")
    latents = np.ones((1500, 2))
    assert separated_predictability(as_numbers(factors), latents).value == 0.0
    assert squared_modularity(binned_mi(factors, latents)).value == 0.0
