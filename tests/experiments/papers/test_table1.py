from pathlib import Path

import numpy as np
import pytest

import repalign
from repalign.experiments.papers.table1 import EXPERIMENT, STORES, PairCase, efficiency, measure
from repalign.experiments.reproduce.experiment import Measured, Work
from repalign.experiments.reproduce.results import Reproduction
from repalign.experiments.reproduce.units import Outcome
from repalign.experiments.table_one_pairs import PAIRS
from repalign.workflows.machine import Machine

RESNET = next(pair for pair in PAIRS if pair.title.startswith("ResNet"))


def test_a_pair_is_measured_in_every_reading_of_ica(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = rng.laplace(size=(200, 3))
    (tmp_path / STORES).mkdir()
    ids = [str(number) for number in range(200)]
    for name, values in ((RESNET.source, rows), (RESNET.target, rows[:, ::-1] * [1, -1, 1])):
        repalign.import_store(repalign.as_source(values, ids=ids), tmp_path / STORES / f"{name}.h5")
    found = measure(PairCase(RESNET.title), 0, Work(tmp_path, Machine()))
    values = {each.measure: each.value for each in found}
    for name in ("permutation", "rigid", "linear"):
        assert values[name] == pytest.approx(0, abs=1e-9)
    for reading in ("ica", "ica+scale", "ica-components"):
        assert values[f"{reading}, held-out"] < 0.05
        assert {efficiency(reading), f"{efficiency(reading)}, held-out"} <= values.keys()


def test_the_sentences_count_the_pairs_in_the_papers_order() -> None:
    def outcome(title: str, *, is_kept: bool) -> Outcome:
        errors = {"linear": 0.1, "rigid": 0.2, "ica": 0.3, "permutation": 0.4 if is_kept else 0.25}
        measured = [Measured(name, value) for name, value in errors.items()]
        measured += [
            Measured(efficiency(name), 0.5) for name in ("ica", "ica+scale", "ica-components")
        ]
        return Outcome(PairCase(title), 0, tuple(measured), 0.0)

    outcomes = tuple(outcome(pair.title, is_kept=pair is not RESNET) for pair in PAIRS)
    first, *readings, _ = Reproduction(EXPERIMENT, "small", (0,), outcomes).sentences()
    assert "holds for 3 of 4 trained pairs" in first
    assert readings[0] == "Efficiency in-sample with the reading ica: 50, 50, 50, 50 %."


def test_the_papers_numbers_stand_beside_the_pairs_that_stand_for_them() -> None:
    published = {(each.case, each.measure): each.value for each in EXPERIMENT.published}
    assert published[RESNET.title, "rigid"] == 0.206
    assert published[RESNET.title, efficiency("ica")] == 0.3977
    assert len(published) == 4 * 5
