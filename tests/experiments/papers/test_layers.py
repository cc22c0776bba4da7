import re
from dataclasses import replace
from pathlib import Path

import pytest

from repalign.engine.machine import Machine
from repalign.experiments.papers.layers import (
    BETWEEN,
    EXPERIMENT,
    HIGHEST,
    LAST,
    SHIPPED,
    SIZES,
    UNRELATED,
    LayersCase,
    column,
    curve,
    measure,
)
from repalign.experiments.reproduce.experiment import Measured, Outcome, Work
from repalign.experiments.reproduce.results import Reproduction

TINY = replace(SIZES.trained[0], width=16, heads=2, steps=3, batch_size=2)


def test_every_layer_of_two_trainings_is_nearer_than_unrelated_rows(tmp_path: Path) -> None:
    case = replace(SHIPPED, components=(4,), n_samples=150)
    found = measure(case, 0, Work(tmp_path, Machine()))
    values = {each.measure: each.value for each in found if each.at is None}
    layers = [values[column(name, 4)] for name in BETWEEN]
    assert min(layers) > 2 * values[column(UNRELATED, 4)]
    assert max(layers) < 1
    assert values[column(HIGHEST, 4)] == (layers[3] == max(layers))
    course = [each for each in found if each.measure == curve(4)]
    assert [(each.at, each.value) for each in course] == list(enumerate(layers))


def test_models_are_trained_from_the_seed_and_kept(tmp_path: Path) -> None:
    sizes = (TINY, replace(TINY, name="gpt-neox-wider", width=32))
    case = LayersCase("tiny", trained=sizes, components=(2,), n_samples=3, tokens_per_sample=2)
    first = measure(case, 1, Work(tmp_path, Machine()))
    models = sorted(path.name for path in (tmp_path / "models").iterdir())
    assert models == ["gpt-neox-32-start2", "gpt-neox-wider-start3"]
    before = [path.stat().st_mtime_ns for path in (tmp_path / "models").iterdir()]
    assert measure(case, 1, Work(tmp_path, Machine())) == first
    assert [path.stat().st_mtime_ns for path in (tmp_path / "models").iterdir()] == before


@pytest.mark.parametrize(("last", "says"), [(0.9, "reproduces"), (0.4, "does NOT reproduce")])
def test_the_sentence_follows_the_last_layer(last: float, says: str) -> None:
    def outcome(case: LayersCase) -> Outcome:
        measured = []
        for k in case.components:
            values = dict.fromkeys(BETWEEN[:3], 0.5) | {LAST: last, UNRELATED: 0.1}
            values[HIGHEST] = float(last > 0.5)
            measured += [Measured(column(name, k), value) for name, value in values.items()]
        return Outcome(case, 0, tuple(measured), 0.0)

    outcomes = (outcome(SHIPPED), outcome(SIZES))
    first, second = Reproduction(EXPERIMENT, "small", (0,), outcomes).sentences()[:2]
    assert f"{says} here" in first
    assert re.search(rf"k = 4\b.* {last:.3f}\b.* 0\.500 \(embeddings\).* 0\.100\b", second)
