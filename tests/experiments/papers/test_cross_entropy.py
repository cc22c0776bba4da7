import re
from dataclasses import replace
from pathlib import Path

from repalign.engine.machine import Machine
from repalign.experiments.papers.cross_entropy import (
    EXCESS,
    EXPERIMENT,
    FEW,
    MAIN,
    R2,
    R2_MIXTURE,
    R2_UNIFORM,
    SMALL,
    measure,
)
from repalign.experiments.reproduce.experiment import Measured, Outcome, Work
from repalign.experiments.reproduce.results import Reproduction
from repalign.simulation.clusters import ClusterEncoder
from repalign.simulation.fitting import Budget


def test_a_case_gives_its_scores_its_baselines_and_its_excess_loss() -> None:
    short = replace(SMALL[0], budget=Budget(2, 16, 1e-2), encoding=ClusterEncoder(1, (2,)))
    found = {m.measure: m.value for m in measure(short, 0, Work(Path(), Machine()))}
    assert found.keys() == {R2, R2_UNIFORM, R2_MIXTURE, "R² untrained", EXCESS}
    assert found[R2_MIXTURE] > 0.999  # one layer is a linear mixing
    assert found[EXCESS] > 0


def test_what_has_not_converged_is_named() -> None:
    def outcome(case) -> Outcome:
        excess = 0.01 if case.name in (MAIN, *FEW) else 0.2
        values = {R2: 0.5, R2_UNIFORM: 0.4, R2_MIXTURE: 0.7, EXCESS: excess}
        return Outcome(case, 0, tuple(Measured(*each) for each in values.items()), 0.0)

    result = Reproduction(EXPERIMENT, "small", (0,), tuple(map(outcome, SMALL)))
    main, few, _, slow, _ = result.sentences()
    assert re.match(r"100 classes .*\b0\.400\b.* 0\.400\b", main)
    assert re.match(r"4 classes .*\b0\.40 .*\b0\.010\b.* too few", few)
    assert "100 classes, κ = 20; 100 classes, 3 latents; 1000 instances, fresh views" in slow
