import re
from pathlib import Path

import pytest

from repalign.engine.machine import Machine
from repalign.experiments.papers.radial_classes import (
    ACCURACY,
    CCA,
    EXPERIMENT,
    HARD,
    NOISY,
    SLOW,
    UNTRAINED,
    RadialCase,
    measure,
)
from repalign.experiments.reproduce.experiment import Measured, Outcome, Work
from repalign.experiments.reproduce.results import Reproduction
from repalign.simulation.fitting import Budget
from repalign.simulation.radial import RadialClasses


def test_two_trainings_agree_where_the_posterior_is_smooth() -> None:
    classes = RadialClasses(label_noise=2.0)
    case = RadialCase("noisy", classes, Budget(500, 128, 1e-2), at=(0, 500))
    found = measure(case, 0, Work(Path(), Machine()))
    values = {m.measure: m.value for m in found if m.at is None}
    assert values[CCA] > 0.98
    assert values[UNTRAINED] < values[CCA] - 0.05
    assert [m.at for m in found if m.at is not None] == [0, 500]


@pytest.mark.parametrize(("hard", "says"), [(0.97, "reproduces"), (0.6, "does NOT reproduce")])
def test_the_sentence_follows_the_hard_labels_alone(hard: float, says: str) -> None:
    def outcome(case) -> Outcome:
        value = 0.99 if case.name == NOISY else hard
        values = {CCA: value, UNTRAINED: 0.5, ACCURACY: 0.9}
        return Outcome(case, 0, tuple(Measured(*each) for each in values.items()), 0.0)

    cases = EXPERIMENT.presets["small"].cases
    assert [case.name for case in cases] == [HARD, SLOW, NOISY]
    first, second = Reproduction(EXPERIMENT, "small", (0,), tuple(map(outcome, cases))).sentences()[
        :2
    ]
    assert re.search(rf" {says}\b.* {hard:.3f}\b", first)
    assert "0.990 to 0.990" in second
