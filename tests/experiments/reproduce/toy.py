"""An experiment of a moment, in a module of its own so that other processes find it."""

from dataclasses import dataclass

import numpy as np

from repalign.experiments.reproduce.experiment import (
    Case,
    Experiment,
    Measured,
    Preset,
    Published,
    Work,
)
from repalign.figures.style import new_figure


@dataclass(frozen=True)
class Draw(Case):
    mean: float = 0.0


def measure(case: Case, seed: int, work: Work):
    assert isinstance(case, Draw)
    with (work.folder / "log").open("a") as log:  # who was measured, and how often
        log.write(f"{case.name} {seed}\n")
    if (work.folder / "stop").exists() and seed == 1:
        raise KeyboardInterrupt
    value = case.mean + np.random.default_rng(seed).standard_normal()
    return [Measured("value", value), Measured("undefined", float("nan"))] + [
        Measured("course", value * step, at=step) for step in (2, 1)
    ]


def experiment(**changes) -> Experiment:
    given = {
        "name": "toy",
        "paper": "none",
        "shows": "numbers",
        "needs": "nothing",
        "differs": "there is none.",
        "presets": {"small": Preset((Draw("low"), Draw("high", 5.0)), 3, 0.1)},
        "measure": measure,
        "sentences": lambda result: [f"high is {result.find('high', 'value').mean:.1f}"],
        "plot": lambda result: new_figure(),
        "published": (Published("high", "value", 5.0),),
    }
    return Experiment(**(given | changes))
