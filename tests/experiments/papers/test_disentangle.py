import re
from dataclasses import replace
from pathlib import Path

import numpy as np

from repalign.engine.machine import Machine
from repalign.experiments.papers.disentangle import EXPERIMENT, SMALL, measure
from repalign.experiments.papers.reports.disentangle import (
    ICA,
    INFO_MEC,
    NULL,
    OWN_ICA,
    RECONSTRUCTION,
    ROTATION,
    TABLE_TWO,
    TURNED,
    UNTRAINED,
    select,
    sentences,
)
from repalign.experiments.reproduce.experiment import Measured, Outcome, Work
from repalign.experiments.reproduce.given_data import GivenData
from repalign.experiments.reproduce.results import Reproduction


def test_an_autoencoder_is_scored_before_along_and_after_training() -> None:
    quick = replace(SMALL[0].settings, n_steps=4, batch_size=8, channels=(4, 4))
    case = replace(SMALL[0], settings=quick, at=(2, 4), n_images=300, n_judged=200)
    found = measure(case, 0, Work(Path(), Machine()))
    values = {(each.measure, each.at): each.value for each in found}
    for step in (0, 2, 4):
        for name in INFO_MEC:
            assert np.isfinite(values[name, step])
            assert np.isfinite(values[f"{name} ICA", step])
            assert np.isfinite(values[name + ROTATION, step])
    assert values[RECONSTRUCTION, 4] < values[RECONSTRUCTION, 2] < 1
    assert values["InfoM", None] == values["InfoM", 4] != values["InfoM", 2]
    # ICA without whitening turns latents, and a linear read-out does not mind
    assert abs(values["InfoE", 4] - values["InfoE ICA", 4]) < 0.02
    assert abs(values["InfoE", 4] - values[f"InfoE{ROTATION}", 4]) < 0.02
    assert 0 < values[f"InfoM{NULL}", None] <= 1


def planted(seed: int, case) -> Outcome:
    """Modularity rises with the step, but the last of the first setting reconstructs badly."""
    bonus = SMALL.index(case) / 100
    found = []
    for step in (0, *case.at):
        lost = case == SMALL[0] and step == case.at[-1]
        value = 0.1 + step / 10_000 + bonus
        found += [Measured(name, value + (0.3 if lost else 0), at=step) for name in INFO_MEC]
        found += [Measured(f"{name} ICA", value + 0.2 - bonus, at=step) for name in INFO_MEC]
        found += [Measured(name + ROTATION, value - 0.1, at=step) for name in INFO_MEC]
        found.append(Measured(RECONSTRUCTION, 0.9 if lost else 0.5, at=step))
    found.append(Measured(f"InfoM{NULL}", 0.7))
    return Outcome(case, seed, tuple(found), 0.0)


OUTCOMES = tuple(planted(seed, case) for seed in range(3) for case in SMALL)


def test_the_best_that_reconstructs_is_chosen_by_modularity() -> None:
    chosen = {each.case.name: {m.measure: m.value for m in each.measured}
              for each in select(OUTCOMES)}  # fmt: skip
    last = SMALL[0].at[-1]
    assert list(chosen) == [UNTRAINED, "AE", TURNED, ICA, OWN_ICA, "β-VAE", "β-TCVAE"]
    assert abs(chosen["AE"]["InfoM"] - (0.1 + last / 10_000 + 0.02)) < 1e-9
    assert abs(chosen[ICA]["InfoM"] - (0.3 + last / 10_000)) < 1e-9
    assert abs(chosen[UNTRAINED]["InfoM"] - 0.1) < 1e-9


def test_the_paper_stands_beside_its_own_data_alone() -> None:
    own = Reproduction(EXPERIMENT, "small", (0, 1, 2), OUTCOMES, GivenData("sprites"))
    assert own.find("AE", "InfoM").published is None
    assert own.cases[:2] == (UNTRAINED, "AE")
    shapes = replace(own, data=GivenData("Shapes3D"))
    assert shapes.find(ICA, "InfoM").published == TABLE_TWO[ICA][0][0] == 0.79
    change, others, null = sentences(own)
    assert re.search(r"ICA\b.* InfoM\b.* 3 of 3\b.* 3 of 3\b.* rotation", change)
    assert "β-" in others
    assert re.search(r"InfoM\b.* 0\.70 to 0\.70\b", null)
