from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from repalign.experiments.papers.calibration import (
    EXPERIMENT,
    SMALL,
    CalibrationCase,
    group_sizes,
    measure,
)
from repalign.experiments.papers.reports.calibration import (
    ABOVE,
    BELOW,
    COVERAGE,
    FALSE_POSITIVES,
    chance,
    sentences,
)
from repalign.experiments.reproduce.experiment import Measured, Work
from repalign.experiments.reproduce.results import Reproduction
from repalign.experiments.reproduce.units import Outcome
from repalign.workflows.machine import Machine


def measured(case: CalibrationCase, seed: int = 0) -> dict[str, float]:
    return {m.measure: m.value for m in measure(case, seed, Work(Path(), Machine()))}


@pytest.mark.parametrize(
    ("counted", "names"),
    [
        ("false positives", FALSE_POSITIVES),
        ("coverage", COVERAGE),
        ("twins", (ABOVE, BELOW)),
    ],
)
def test_every_kind_counts_shares_of_its_trials(counted, names: tuple[str, ...]) -> None:
    case = CalibrationCase("x", counted, 300, "groups of 10", 0.2, n_trials=2, n_columns=2)
    found = measured(case)
    assert tuple(found) == names
    assert set(found.values()) <= {0.0, 0.5, 1.0}


def test_unequal_groups_are_about_as_many_rows_and_one_has_a_third_of_them() -> None:
    sizes = group_sizes(CalibrationCase("x", "coverage", 300, "unequal groups"))
    assert sizes[0] == 100
    assert sizes[-1] == 3
    assert 300 <= sizes.sum() < 400


def test_what_is_outside_chance_is_named() -> None:
    assert chance(0.05, 1000) == (0.033, 0.069)
    case = replace(SMALL[0], n_trials=100)
    values = np.full((4, 6), 0.05)
    values[:, 2] = 0.5
    outcomes = tuple(
        Outcome(
            case,
            seed,
            tuple(Measured(*each) for each in zip(FALSE_POSITIVES, row, strict=True)),
            1.0,
        )
        for seed, row in enumerate(values)
    )
    (line,) = sentences(Reproduction(EXPERIMENT, "small", (0, 1, 2, 3), outcomes))
    assert "0.050 to 0.500 in 6 cells, where 0.05 is claimed; 5 lie within" in line
    assert f"0.500 ({case.name}: {FALSE_POSITIVES[2]})" in line
