"""Do two trainings on the same classes agree linearly? Roeder et al. 2021, section 5.1."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from repalign.experiments.papers.patch_coding import mean_cca
from repalign.experiments.reproduce.drawing import COLOURS, draw_curve
from repalign.experiments.reproduce.experiment import (
    Case,
    Experiment,
    Measured,
    Preset,
    Published,
    Work,
)
from repalign.figures.style import new_panel
from repalign.simulation.fitting import Budget
from repalign.simulation.radial import SPREAD, RadialClasses, train_radial

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from repalign.experiments.reproduce.results import Reproduction

CCA, UNTRAINED, ACCURACY = "mean CCA", "mean CCA untrained", "accuracy"
N_JUDGED = 4096
ALIGNED = "to alignment"  # a figure; the text has no number


@dataclass(frozen=True)
class RadialCase(Case):
    """Classes, how long is trained, and when the two trainings are compared."""

    classes: RadialClasses
    budget: Budget
    at: tuple[int, ...]


def measure(case: Case, seed: int, work: Work) -> Sequence[Measured]:
    """Train two networks from their own starts and data; compare features of fresh points."""
    del work  # small networks on the CPU
    assert isinstance(case, RadialCase)
    judged = SPREAD * np.random.default_rng([seed, 2]).standard_normal((N_JUDGED, 2))
    pair = [
        train_radial(case.classes, case.budget, judged, seed=2 * seed + number, at=case.at)
        for number in (0, 1)
    ]
    course = {step: mean_cca(*(run.features[step] for run in pair)) for step in case.at}
    return [
        Measured(CCA, course[case.at[-1]]),
        Measured(UNTRAINED, course[0]),
        Measured(ACCURACY, float(np.mean([run.accuracy for run in pair]))),
        *(Measured(CCA, value, at=step) for step, value in course.items()),
    ]


HARD, SLOW, NOISY = (
    "hard sectors, cycle to .01",
    "hard sectors, constant .001",
    "labels of moved points, cycle to .01",
)


def cases(n_steps: int) -> tuple[RadialCase, ...]:
    """Return hard labels as published, with two learning rates, and labels of moved points."""
    share = (0, 0.025, 0.05, 0.1, 0.175, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1)
    at = tuple(round(part * n_steps) for part in share)
    cycle, constant = Budget(n_steps, 256, 1e-2), Budget(n_steps, 256, 1e-3, is_constant=True)
    return (
        RadialCase(HARD, RadialClasses(), cycle, at),
        RadialCase(SLOW, RadialClasses(), constant, at),
        RadialCase(NOISY, RadialClasses(label_noise=1.0), cycle, at),
    )


def paper_cases(n_steps: int) -> tuple[RadialCase, ...]:
    """Return the same for longer, and hard labels with about as many features as there may be."""
    alike = cases(n_steps)
    wide = RadialCase(
        "hard sectors, 16 features", RadialClasses(dim=16), alike[0].budget, alike[0].at
    )
    return (*alike, wide)


def sentences(result: "Reproduction") -> Sequence[str]:
    """Say which labels make two trainings agree."""

    def told(name: str) -> str:
        found, accuracy = result.find(name, CCA), result.find(name, ACCURACY)
        low, high = min(found.values), max(found.values)
        return f"mean CCA {low:.3f} to {high:.3f} (accuracy {accuracy.mean:.3f})"

    hard = [*result.find(HARD, CCA).values, *result.find(SLOW, CCA).values]
    does = "reproduces" if min(hard) > 0.95 else "does NOT reproduce"
    return (
        f"The published rise to alignment {does} with hard labels: {told(HARD)}; with the "
        f"smaller constant learning rate {told(SLOW)}; untrained networks have "
        f"{result.find(HARD, UNTRAINED).mean:.2f}.",
        f"With labels of points moved by noise, {told(NOISY)}. Then the posterior is smooth and "
        "the features that give it are finite; hard sectors have a posterior of 0 or 1, which no "
        "finite features give.",
    )


def plot(result: "Reproduction") -> "Figure":
    """Draw mean CCA over training."""
    figure, panel = new_panel(6.4, 4.0)
    for name, colour in zip(result.cases, COLOURS, strict=False):
        draw_curve(panel, result.curve(name, CCA), colour=colour, label=name)
    panel.set_ylim(0, 1.02)
    panel.set_xlabel("training step")
    panel.set_ylabel("mean CCA of two trainings")
    panel.legend(loc="lower right", frameon=False)
    return figure


EXPERIMENT = Experiment(
    name="radial-classes",
    paper="Roeder et al. 2021, section 5.1",
    shows="mean CCA of two trainings on 18 radial classes over training",
    needs="nothing",
    differs=(
        "18 sectors and σ = 3 as published; network (three hidden layers of 64), features (2), "
        "optimiser and steps are ours, since the paper's are in an appendix that was not at hand. "
        "Labels of moved points are a departure from the paper. The small preset has the 4,000 "
        "iterations after which the paper's networks agree, --preset paper five times as many."
    ),
    presets={
        "small": Preset(cases(4000), n_seeds=3, seconds_per_seed=15),
        "paper": Preset(paper_cases(20_000), n_seeds=10, seconds_per_seed=100, is_estimate=True),
    },
    measure=measure,
    sentences=sentences,
    plot=plot,
    published=(Published(HARD, CCA, ALIGNED), Published(SLOW, CCA, ALIGNED)),
)
