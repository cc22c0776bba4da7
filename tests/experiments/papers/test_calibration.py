from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import repalign
from repalign.core.factors.kinds import DEFAULT_GROUPS, GROUPS
from repalign.core.maps.kinds import ALL_MAPS, KIND_OF
from repalign.experiments.calibration import maps
from repalign.experiments.calibration.laws import CalibrationCase, draw_sources, group_sizes
from repalign.experiments.calibration.scores import REPEATED
from repalign.experiments.papers.calibration import EXPERIMENT, LARGE, SMALL, measure
from repalign.experiments.papers.reports.calibration import chance, sentences
from repalign.experiments.reproduce.experiment import Measured, Work
from repalign.experiments.reproduce.results import Reproduction
from repalign.experiments.reproduce.units import Outcome
from repalign.workflows.machine import Machine


def measured(case: CalibrationCase, seed: int = 0) -> dict[str, float]:
    return {m.measure: m.value for m in measure(case, seed, Work(Path(), Machine()))}


def case_of(counted, **changes) -> CalibrationCase:
    case = CalibrationCase("x", counted, 200, "groups of 10", 0.2, n_trials=2, n_columns=2)
    return replace(case, scores=DEFAULT_GROUPS, **changes)


def asked_of_all(counted: str) -> set[str]:
    """What every map of the list is asked."""
    paired = [name for name in ALL_MAPS if KIND_OF[name].is_paired]
    if counted == "coverage":
        return {f"held, held-out, {name}" for name in (*ALL_MAPS, "efficiency")}
    return {f"p ≤ .05, {split}, {name}" for split in ("in-sample", "held-out") for name in paired}


@pytest.mark.parametrize(
    ("counted", "folds"),
    [
        ("false positives", False),
        ("false positives beyond groups", True),
        ("coverage", True),
        pytest.param("false positives", True, marks=pytest.mark.slow),
        pytest.param("false positives beyond groups", False, marks=pytest.mark.slow),
        pytest.param("coverage", False, marks=pytest.mark.slow),
    ],
)
def test_every_map_is_counted(counted, folds) -> None:
    found = measured(case_of(counted, folds=folds))
    assert asked_of_all(counted) <= set(found)
    assert any("disjoint" in name for name in found) == (not folds)
    assert set(found.values()) <= {0.0, 0.5, 1.0}


def test_every_score_that_has_a_null_and_an_interval_is_counted_in_groups_and_alone() -> None:
    names = {score.name for group in GROUPS if group.is_repeatable for score in group.scores}
    assert names == set(REPEATED)
    for counted in ("false positives of scores", "coverage of scores"):
        cases = [case for case in LARGE if case.counted == counted]
        for sizes in ("alone", "groups of 10", "unequal groups"):
            asked = {name for case in cases if case.sizes == sizes for name in case.scores}
            assert asked == {group.name for group in GROUPS if group.is_repeatable}
    found = measured(case_of("false positives of scores", factors="constant"))
    assert set(found) == {
        f"p ≤ .05, {score.name}"
        for group in GROUPS
        if group.name in DEFAULT_GROUPS
        for score in group.scores
    }
    held = measured(case_of("coverage of scores"))
    assert {name.split(", ")[1] for name in held} == {name.split(", ")[1] for name in found}


def test_p_values_are_those_of_compare() -> None:
    """Counted is what users read: the same pairs, shuffles and maps."""
    case, trial = case_of("false positives", n_trials=1), 3
    groups = np.repeat(np.arange(20), 10)
    rng = np.random.default_rng((trial, 3))
    x, y = (draw_sources(groups, case.icc, rng) for _ in range(2))
    closed = [name for name in ALL_MAPS if KIND_OF[name].is_paired and not KIND_OF[name].needs_ica]
    result = repalign.compare(
        x, y, groups=groups, maps=closed, null=19, refits=0, gaussian_null=0, seed=trial
    )
    wanted = {f"p ≤ .05, {r.split}, {r.map}": float(r.p_value <= 0.05) for r in result.records}
    found = {each.measure: each.value for each in maps.false_positives(case, [trial])}
    assert wanted == {name: found[name] for name in wanted}


def test_twins_are_counted() -> None:
    found = measured(case_of("twins", n_rows=100))
    assert all(0 <= found[name] <= 1 for name in ("above all twins", "below all twins"))


def test_unequal_groups_are_about_as_many_rows_and_one_has_a_third_of_them() -> None:
    sizes = group_sizes(CalibrationCase("x", "coverage", 300, "unequal groups"))
    assert sizes[0] == 100
    assert sizes[-1] == 3
    assert 300 <= sizes.sum() < 400


def test_the_full_preset_has_enough_trials_and_all_that_the_small_one_has() -> None:
    assert {case.n_trials * EXPERIMENT.preset("paper").n_seeds for case in LARGE} == {400}
    assert set(SMALL) <= set(LARGE)
    assert len({case.name for case in LARGE}) == len(LARGE)


def test_what_is_outside_chance_is_named_and_on_which_side() -> None:
    assert chance(0.05, 1000) == (0.033, 0.069)
    case = replace(SMALL[0], n_trials=100)
    names = [f"p ≤ .05, in-sample, {name}" for name in ("rigid", "linear", "ica")]
    outcomes = tuple(
        Outcome(case, seed, tuple(map(Measured, names, (0.05, 0.5, 0.0))), 1.0) for seed in range(4)
    )
    plain, ica = sentences(Reproduction(EXPERIMENT, "small", (0, 1, 2, 3), outcomes))
    assert "0.050 to 0.500 in 2 cells, where 0.05 is claimed; 1 lie within" in plain
    assert f"Above: 0.500 ({case.name}: {names[1]})" in plain
    assert f"Below: 0.000 ({case.name}: {names[2]})" in ica
