import re
from dataclasses import replace
from pathlib import Path

from repalign.engine.machine import Machine
from repalign.experiments.papers.contrastive import (
    BOX,
    EXPERIMENT,
    MCC,
    R2,
    SMALL,
    SPHERE,
    THEOREM,
    measure,
)
from repalign.experiments.reproduce.experiment import Measured, Outcome, Work
from repalign.experiments.reproduce.results import Reproduction
from repalign.simulation.fitting import Budget


def test_a_box_is_recovered_one_by_one_and_the_baselines_are_not() -> None:
    (case,) = (case for case in SMALL if case.name == BOX)
    easy = replace(case, budget=Budget(300, 128, 1e-2), n_layers=2)
    found = {m.measure: m.value for m in measure(easy, 0, Work(Path(), Machine()))}
    assert found[MCC] > 0.98
    assert found[R2] > 0.98
    for stage in (" mixture", " untrained"):
        assert found[MCC + stage] < 0.9
        assert found[R2 + stage] < 0.95


def test_the_sentences_follow_from_the_numbers() -> None:
    def outcome(case, seed: int) -> Outcome:
        values = {R2: 0.5, MCC: 0.25 + seed / 2, f"{R2} mixture": 0.7, f"{R2} untrained": 0.3}
        return Outcome(case, seed, tuple(Measured(*each) for each in values.items()), 0.0)

    outcomes = tuple(outcome(case, seed) for seed in (0, 1) for case in SMALL)
    result = Reproduction(EXPERIMENT, "small", (0, 1), outcomes)
    first, metric, *_ = result.sentences()
    assert re.search(r"MCC 0\.500\b.* 0\.250\b", first)
    assert re.search(r"\bMCC\b.*\b0\.50 .*\b0\.50\b", metric)
    assert result.find(SPHERE, R2).published == THEOREM
