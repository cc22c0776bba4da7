"""What ``disentangle`` chooses, says and draws: the best of every grid, by modularity."""

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from repalign.experiments.reproduce.drawing import dot_plot
from repalign.experiments.reproduce.experiment import Case, Measured, Outcome, Published
from repalign.experiments.reproduce.results import Reproduction, Summary

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INFO_MEC = ("InfoM", "InfoE", "InfoC")
# By condition of the library, and what stands behind the name of a score of it.
CONDITIONS = {"raw": "", "ica": " ICA"}
NULL, ROTATION, RECONSTRUCTION = " null", " rotated", "reconstruction"
SHOWN = (
    *INFO_MEC, f"InfoM{NULL}", *(f"{name} ICA" for name in INFO_MEC), f"InfoM{ROTATION}",
    RECONSTRUCTION,
)  # fmt: skip
NEAR_BEST = 1.1
FAMILIES = ("AE", "β-VAE", "β-TCVAE")
TURNED = "AE, rotated at random"
ICA, OWN_ICA, UNTRAINED = "AE + ICA, same models", "AE + ICA, best by itself", "untrained AE"
DATA = ("Shapes3D", "MPI3D", "Falcor3D", "Isaac3D")
# Table 2 of the paper: InfoM, InfoE, InfoC on the four data sets.
TABLE_TWO = {
    "AE": ((0.34, 0.99, 0.16), (0.42, 0.40, 0.31), (0.37, 0.83, 0.20), (0.41, 0.80, 0.34)),
    "β-VAE": ((0.59, 0.99, 0.49), (0.45, 0.71, 0.51), (0.71, 0.73, 0.70), (0.60, 0.80, 0.51)),
    "β-TCVAE": ((0.61, 0.82, 0.62), (0.51, 0.60, 0.57), (0.66, 0.74, 0.71), (0.54, 0.70, 0.46)),
    ICA: ((0.79, 0.99, 0.52), (0.44, 0.66, 0.31), (0.71, 0.83, 0.33), (0.64, 0.82, 0.43)),
}
TABLE_TWO[OWN_ICA] = TABLE_TWO[ICA]
PUBLISHED = tuple(
    Published(case, score, value, data)
    for case, rows in TABLE_TWO.items()
    for data, values in zip(DATA, rows, strict=True)
    for score, value in zip(INFO_MEC, values, strict=True)
)


def scored(score: str, condition: str) -> str:
    """Return the name of a score in a condition."""
    return score + CONDITIONS[condition]


def select(outcomes: Sequence[Outcome]) -> tuple[Outcome, ...]:
    """Return the best of every grid as cases of their own.

    The setting and the step are those of the highest mean InfoM over the fits, among those whose
    mean reconstruction error is within a tenth of the lowest of the family.
    """
    grids = {
        family: _grid([each for each in outcomes if each.case.name.startswith(f"{family}, ")])
        for family in FAMILIES
    }
    plain = _best(grids["AE"], INFO_MEC[0])
    own = _best(grids["AE"], scored(INFO_MEC[0], "ica"))
    chosen = [(family, _best(grid, INFO_MEC[0]), "") for family, grid in grids.items()]
    ica = CONDITIONS["ica"]
    chosen[1:1] = [(TURNED, plain, ROTATION), (ICA, plain, ica), (OWN_ICA, own, ica)]
    first = next(iter(grids["AE"].values()))
    found = [(UNTRAINED, _State(0, first), ""), *chosen]
    return tuple(each for name, state, suffix in found for each in state.as_case(name, suffix))


class _State:
    """All fits of one setting after one number of steps."""

    def __init__(self, step: int, fits: Sequence[Outcome]) -> None:
        self.step, self.fits = step, fits

    def mean(self, measure: str) -> float:
        return float(np.mean([_value(fit, measure, self.step) for fit in self.fits]))

    def as_case(self, name: str, suffix: str) -> list[Outcome]:
        found = []
        for fit in self.fits:
            values = {score: _value(fit, score + suffix, self.step) for score in INFO_MEC}
            measured = tuple(Measured(score, value) for score, value in values.items())
            found.append(Outcome(Case(name), fit.seed, measured, 0.0))
        return found


def _value(fit: Outcome, measure: str, step: int) -> float:
    return next(m.value for m in fit.measured if (m.measure, m.at) == (measure, step))


def _grid(outcomes: Sequence[Outcome]) -> dict[str, list[Outcome]]:
    ordered = sorted(outcomes, key=lambda each: each.case.name)
    return {name: list(fits) for name, fits in groupby(ordered, key=lambda each: each.case.name)}


def _best(grid: dict[str, list[Outcome]], measure: str) -> _State:
    states = [
        _State(int(each.at), fits)
        for fits in grid.values()
        for each in fits[0].measured
        if each.measure == RECONSTRUCTION and each.at
    ]
    limit = NEAR_BEST * min(state.mean(RECONSTRUCTION) for state in states)
    kept = [state for state in states if state.mean(RECONSTRUCTION) <= limit]
    return max(kept, key=lambda state: state.mean(measure))


def sentences(result: Reproduction) -> Sequence[str]:
    """Say which models were chosen, and what ICA changed in them."""
    plain, turned, after = (
        {score: result.find(name, score) for score in INFO_MEC} for name in ("AE", TURNED, ICA)
    )
    nulls = [each.mean for each in result.results() if each.measure == f"InfoM{NULL}"]
    best = max(FAMILIES[1:], key=lambda name: result.find(name, "InfoM").mean)
    other, start = (
        f"has InfoM {result.find(name, 'InfoM').mean:.2f} at InfoE "
        f"{result.find(name, 'InfoE').mean:.2f}"
        for name in (best, UNTRAINED)
    )
    moves = ", ".join(f"{each} {plain[each].mean:.2f} to {after[each].mean:.2f}" for each in after)
    return [
        f"ICA of the chosen autoencoders: {moves}. InfoM is higher in "
        f"{_more(plain['InfoM'], after['InfoM'])} fits than before, and in "
        f"{_more(turned['InfoM'], after['InfoM'])} than after a random rotation "
        f"({turned['InfoM'].mean:.2f}).",
        f"The better of the VAEs, {best}, {other}; an untrained encoder {start}.",
        f"InfoM with shuffled factors is {min(nulls):.2f} to {max(nulls):.2f}: the largest share "
        "of what noise seems to know, whatever the number of rows. It means nothing where InfoE "
        "is near 0; where InfoE is high, compare InfoM with a random rotation.",
    ]


def _more(before: Summary, after: Summary) -> str:
    rose = [there > here for here, there in zip(before.values, after.values, strict=True)]
    return f"{sum(rose)} of {len(rose)}"


def plot(result: Reproduction) -> "Figure":
    """Draw the three scores of the chosen models and of all settings at the end of training."""
    return dot_plot(result, INFO_MEC, label="InfoMEC (1 is best)", limits=(0, 1.02))
