from pathlib import Path

import numpy as np
import pytest

from repalign.engine.machine import Machine
from repalign.experiments.papers import data_size, width
from repalign.experiments.papers.patch_coding import (
    BOTTOM,
    LOSS,
    TOP,
    UNRELATED,
    UNTRAINED,
    PatchCase,
    find_images,
    mean_cca,
    measure,
)
from repalign.experiments.reproduce.experiment import Experiment, Measured, Outcome, Work
from repalign.experiments.reproduce.results import Reproduction
from repalign.simulation.fitting import Budget
from repalign.simulation.patches import PatchCoder


def test_training_brings_two_codings_of_digits_together() -> None:
    case = PatchCase("tiny", PatchCoder(32, 4), Budget(200, 128, 5e-3))
    found = measure(case, 0, Work(Path(), Machine(), find_images(None)))
    values = {each.measure: each.value for each in found if each.at is None}
    assert min(values[TOP], values[BOTTOM]) > values[UNTRAINED] > 2 * values[UNRELATED]
    assert values[LOSS] < np.log(128)
    course = {each.at: each.value for each in found if each.measure == TOP and each.at is not None}
    assert list(course) == [0, 20, 50, 100, 150, 200]
    assert (course[0], course[200]) == (values[UNTRAINED], values[TOP])


def test_the_similarity_does_not_see_a_linear_map() -> None:
    rows = np.random.default_rng(0).standard_normal((300, 4))
    assert mean_cca(rows, rows @ np.random.default_rng(1).standard_normal((4, 4))) == pytest.approx(
        1
    )


@pytest.mark.parametrize("experiment", [data_size.EXPERIMENT, width.EXPERIMENT])
@pytest.mark.parametrize("rises", [True, False])
def test_the_sentences_follow_the_trend(experiment: Experiment, *, rises: bool) -> None:
    cases = experiment.presets["small"].cases
    values = np.linspace(0.5, 0.8, len(cases))

    def outcome(number: int, seed: int) -> Outcome:
        value = float(values[number if rises else -number - 1]) + 0.001 * seed
        names = (TOP, BOTTOM, UNTRAINED, UNRELATED, LOSS)
        return Outcome(cases[number], seed, tuple(Measured(name, value) for name in names), 0.0)

    outcomes = tuple(outcome(number, seed) for seed in (0, 1) for number in range(len(cases)))
    first, *_ = Reproduction(experiment, "small", (0, 1), outcomes).sentences()
    assert ("it rises" in first) == rises
    assert ("do not overlap" in first) == rises
