from pathlib import Path

import numpy as np
import pytest

import repalign
from repalign.data.builtin_factors import builtin_columns
from repalign.experiments.papers.proxy_factors import (
    ALL,
    DATA,
    EXPERIMENT,
    FACTORS,
    PIXELS,
    SMALL,
    STORES,
    EncoderCase,
    measure,
)
from repalign.experiments.reproduce.experiment import Measured, Work
from repalign.experiments.reproduce.results import Reproduction
from repalign.experiments.reproduce.units import Outcome
from repalign.workflows.machine import Machine


def test_factors_that_are_there_linearly_are_read_and_others_are_not(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = builtin_columns(DATA).columns
    planted = np.column_stack([np.asarray(table[name], np.float64) for name in FACTORS[:2]])
    rows = np.column_stack([planted, rng.standard_normal((len(planted), 3))])
    (tmp_path / STORES).mkdir()
    ids = [str(number) for number in range(len(rows))]
    repalign.write_store(
        tmp_path / STORES / "planted.h5", rows @ rng.standard_normal((5, 5)), ids=ids
    )
    found = measure(EncoderCase("planted", "planted"), 0, Work(tmp_path, Machine()))
    values = {each.measure: each.value for each in found}
    assert values["ink"] == pytest.approx(1)
    assert values["width"] == pytest.approx(1)
    # what width and ink tell of it is not much
    assert values["slant"] < 0.3
    assert values[ALL] == pytest.approx(np.mean([values[name] for name in FACTORS]))


def test_the_mean_grey_is_a_sum_of_pixels() -> None:
    (case,) = (each for each in SMALL if each.name == PIXELS)
    values = {each.measure: each.value for each in measure(case, 1, Work(Path(), Machine()))}
    assert values["ink"] == pytest.approx(1, abs=1e-4)
    assert 0.8 < values["width"] < 1


@pytest.mark.parametrize(("untrained", "says"), [(0.2, "more than"), (0.9, "no more than")])
def test_the_sentence_follows_the_untrained_network(untrained: float, says: str) -> None:
    def outcome(case: EncoderCase, seed: int) -> Outcome:
        value = untrained if case.kind == "untrained" else 0.8
        return Outcome(case, seed, (Measured(ALL, value + 0.001 * seed),), 0.0)

    outcomes = tuple(outcome(case, seed) for seed in (0, 1) for case in SMALL)
    (first, *_) = Reproduction(EXPERIMENT, "small", (0, 1), outcomes).sentences()
    assert f"{says} from those of the same network untrained ({untrained:.1f}" in first
