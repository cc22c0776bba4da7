"""What every measure promises; a new one joins by standing in the list."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from repalign.core.measures import (
    CHANGES,
    MEASURES,
    Measure,
    measure_called,
    measures_called,
)
from repalign.exceptions import InputError
from tests.core.paired_data import fixture_a
from tests.core.similarity import oracles
from tests.core.similarity.pairs import value, value_on

# The reference values are printed with six digits.
TOLERANCE = 2e-6
ORACLES = {
    "linear-cka": "linear_cka",
    "unbiased-cka": "linear_cka_debiased",
    "mean-cca": "mean_cca_all_coefs",
    "pwcca": "pwcca_published_formula_weights_from_A",
    "svcca-2": "svcca_top2_centred_only_mean",
    "svcca-4": "svcca_top4_centred_only_mean",
    "svcca-8": "svcca_top8_centred_only_mean",
    "mcc-pearson": "clica_mcc_pearson",
    "mcc-spearman": "clica_mcc_spearman",
}
TURNED = {"pwcca": "pwcca_published_formula_weights_from_B", "mean-r2": "clica_linear_r2_z_is_A"}
NAMES = [measure.name for measure in MEASURES]


@pytest.mark.parametrize("case", oracles.CASES)
@pytest.mark.parametrize("name", ORACLES)
def test_measures_agree_with_the_oracles(name: str, case: str) -> None:
    expected = oracles.CASES[case][ORACLES[name]]
    assert_allclose(value(name, *oracles.case(case)), expected, atol=TOLERANCE)


@pytest.mark.parametrize("case", oracles.CASES)
@pytest.mark.parametrize("name", TURNED)
def test_measures_agree_with_the_oracles_the_other_way(name: str, case: str) -> None:
    a, b = oracles.case(case)
    assert_allclose(value(name, b, a), oracles.CASES[case][TURNED[name]], atol=TOLERANCE)


@pytest.mark.parametrize("components", [2, 4, 8])
@pytest.mark.parametrize("case", oracles.CASES)
def test_svcca_of_standardised_columns_is_that_of_roeder(case: str, components: int) -> None:
    a, b = (side / side.std(axis=0) for side in oracles.case(case))
    expected = oracles.CASES[case][f"roeder_svcca_top{components}_standardised_mean"]
    assert_allclose(value(f"svcca-{components}", a, b), expected, atol=TOLERANCE)


def test_measures_agree_with_other_packages_on_the_rotated_pair() -> None:
    pair = fixture_a()
    assert_allclose(value("procrustes-angle", *pair), 0.1243987385387713, rtol=1e-10)
    assert_allclose(value("pooled-r2", *pair), 0.984754912689228, rtol=1e-12)
    assert_allclose(value("mean-r2", *pair), 0.979858114635130, rtol=1e-12)
    assert_allclose(value("linear-cka", *pair), 0.990024027814659, rtol=1e-12)
    assert_allclose(value("mcc-pearson", *pair), 0.646585000882666, rtol=1e-12)
    cca = [0.996527, 0.995387, 0.993317, 0.98833, 0.972516, 0.904948]
    assert_allclose(value("mean-cca", *pair), np.mean(cca), atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_equal_rows_are_as_close_as_can_be(name: str) -> None:
    x, _ = fixture_a()
    best = 1.0 if measure_called(name).better == "↑" else 0.0
    # arccos loses half of the digits near 1
    assert_allclose(value(name, x, x), best, atol=1e-7)
    assert_allclose(value_on(name, 300, x, x), best, atol=1e-7)


@pytest.mark.parametrize("measure", MEASURES, ids=NAMES)
def test_direction_matters_only_where_it_is_said(measure: Measure) -> None:
    x, y = fixture_a()
    same = abs(value(measure.name, x, y) - value(measure.name, y, x)) < 1e-9
    assert same == measure.is_symmetric


@pytest.mark.parametrize("measure", MEASURES, ids=NAMES)
def test_rows_that_fitted_nothing_change_what_is_fitted_and_nothing_else(measure: Measure) -> None:
    x, y = oracles.case("independent")
    same = abs(value_on(measure.name, 300, x, y) - value(measure.name, x[300:], y[300:])) < 1e-12
    assert same != measure.fits


def test_r2_on_other_rows_is_that_of_the_affine_map_of_the_first() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((200, 3))
    y = x @ rng.standard_normal((3, 2)) + rng.standard_normal((200, 2))
    x[150:], y[150:] = x[150:] + 1, y[150:] - [1, 3]
    design = np.column_stack([x, np.ones(200)])
    weights = np.linalg.lstsq(design[:150], y[:150], rcond=None)[0]
    residual = np.sum((y - design @ weights)[150:] ** 2, axis=0)
    total = np.sum((y[150:] - y[150:].mean(axis=0)) ** 2, axis=0)
    assert_allclose(value_on("pooled-r2", 150, x, y), 1 - residual.sum() / total.sum())
    assert_allclose(value_on("mean-r2", 150, x, y), np.mean(1 - residual / total))


@pytest.mark.parametrize("name", [name for name in NAMES if name != "mutual-knn"])
def test_rows_that_do_not_vary_are_as_far_as_can_be(name: str) -> None:
    x, _ = fixture_a()
    worst = 0.0 if measure_called(name).better == "↑" else np.pi / 2
    for pair in ((x, np.ones((400, 3))), (np.ones((400, 3)), x), (np.ones((400, 2)),) * 2):
        assert_allclose(value(name, *pair), worst, atol=1e-12)


def test_names_with_a_number_and_without() -> None:
    assert [each.name for each in measures_called(["svcca", "svcca-16", "mutual-knn-5"])] == [
        "svcca-20",
        "svcca-16",
        "mutual-knn-5",
    ]
    assert measure_called("svcca-16").heading == "SVCCA 16 ↑"
    assert len(measures_called(["all"])) == len(MEASURES)
    assert len(measures_called(["linear-cka", "all"])) == len(MEASURES)


@pytest.mark.parametrize("name", ["svcca-0", "svcca-", "svcca-x", "linear-cka-3", "cka", ""])
def test_a_name_of_no_measure_is_refused(name: str) -> None:
    with pytest.raises(InputError, match=f"{name}.* mean-cca, svc"):
        measure_called(name)


def changed(rows: np.ndarray, change: str, seed: int) -> np.ndarray:
    """One side after a change that a measure may or may not see."""
    rng = np.random.default_rng(seed)
    d = rows.shape[1]
    if change == "translation":
        return rows + 5 * rng.standard_normal(d)
    if change == "scale":
        return float(np.exp(rng.normal())) * 3 * rows
    if change == "rotation":
        return rows @ np.linalg.qr(rng.standard_normal((d, d)))[0]
    if change == "signed permutation":
        return rows[:, rng.permutation(d)] * rng.choice([-1.0, 1.0], d)
    if change == "column scale":
        return rows * np.exp(rng.normal(size=d)) * rng.choice([0.2, 5.0], d)
    turn, other = (np.linalg.qr(rng.standard_normal((d, d)))[0] for _ in range(2))
    return rows @ turn @ np.diag(np.geomspace(0.1, 10, d)) @ other


def related(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A pair that no measure finds equal or unrelated, of columns of unequal spread."""
    rng = np.random.default_rng(seed)
    x = rng.laplace(size=(90, 4)) * [4, 3, 2, 1]
    return x, x @ rng.standard_normal((4, 5)) + rng.laplace(size=(90, 5))


def small(name: str) -> str:
    """The measure with a number that suits rows of four columns."""
    return {"svcca": "svcca-2", "mutual-knn": "mutual-knn-7"}.get(name, name)


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("measure", MEASURES, ids=NAMES)
@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_a_declared_change_leaves_the_value(measure: Measure, side: int, seed: int) -> None:
    pair = related(seed)
    before = value(small(measure.name), *pair)
    for change in (measure.source, measure.target_changes)[side]:
        after = list(pair)
        after[side] = changed(pair[side], change, seed)
        assert_allclose(value(small(measure.name), *after), before, atol=1e-7, err_msg=change)


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("measure", MEASURES, ids=NAMES)
def test_a_change_that_is_not_declared_moves_the_value(measure: Measure, side: int) -> None:
    pair = related(1)
    before = value(small(measure.name), *pair)
    for change in set(CHANGES) - set((measure.source, measure.target_changes)[side]):
        after = list(pair)
        after[side] = changed(pair[side], change, 1)
        assert abs(value(small(measure.name), *after) - before) > 1e-3, change
