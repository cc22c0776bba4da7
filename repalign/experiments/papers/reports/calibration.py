"""What the shares of the calibration mean: which lie within chance of what they should be."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from repalign.experiments.reproduce.drawing import COLOURS
from repalign.printable import for_figure
from repalign.workflows.figures.drawing import GREY, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from repalign.experiments.reproduce.results import Reproduction, Summary

MAPS = ("permutation", "rigid", "linear")
SPLITS = ("in-sample", "held-out")
FALSE_POSITIVES = tuple(f"p ≤ .05, {split}, {name}" for split in SPLITS for name in MAPS)
COVERAGE = tuple(f"held, {split}, {name}" for split in SPLITS for name in MAPS)
ABOVE, BELOW = "above all twins", "below all twins"
EXPECTED = (
    ("false positives at .05", FALSE_POSITIVES, 0.05),
    ("95 % intervals that hold", COVERAGE, 0.95),
    ("Gaussian pairs beyond all 4 twins", (ABOVE, BELOW), 0.2),
)


def chance(share: float, n_trials: int) -> tuple[float, float]:
    """Return between which shares of so many trials 99 % of chance lies."""
    from scipy.stats import binom

    low, high = binom.ppf([0.005, 0.995], n_trials, share)
    return float(low) / n_trials, float(high) / n_trials


def trials_of(result: "Reproduction", each: "Summary") -> int:
    """Return how many trials a share is of."""
    by_name = {outcome.case.name: outcome.case for outcome in result.outcomes}
    return int(getattr(by_name[each.case], "n_trials")) * len(each.values)  # noqa: B009


def sentences(result: "Reproduction") -> Sequence[str]:
    """Say how many shares are what they should be, and name the others."""
    lines = []
    for told, measures, wanted in EXPECTED:
        shares = [each for each in result.results() if each.measure in measures]
        if not shares:
            continue
        odd = []
        for each in shares:
            low, high = chance(wanted, trials_of(result, each))
            if not low <= each.mean <= high:
                odd.append(f"{each.mean:.3f} ({each.case}: {each.measure})")
        values = [each.mean for each in shares]
        line = (
            f"Share of {told}: {min(values):.3f} to {max(values):.3f} in {len(shares)} cells, "
            f"where {wanted:g} is claimed; {len(shares) - len(odd)} lie within 99 % of chance"
        )
        lines.append(f"{line}." if not odd else f"{line}. The others: {'; '.join(odd)}.")
    return lines


def plot(result: "Reproduction") -> "Figure":
    """Draw every share by case, a panel for each kind, with the band of chance behind."""
    kinds = [
        (told, measures, wanted, shares)
        for told, measures, wanted in EXPECTED
        if (shares := [each for each in result.results() if each.measure in measures])
    ]
    heights = [len({each.case for each in shares}) for *_, shares in kinds]
    figure = new_figure(7.2, 1.6 + 0.3 * sum(heights) + 0.5 * len(kinds))
    panels = figure.subplots(len(kinds), squeeze=False, height_ratios=heights)[:, 0]
    for panel, (told, measures, wanted, shares) in zip(panels, kinds, strict=True):
        cases = list(dict.fromkeys(each.case for each in shares))
        low, high = chance(wanted, min(trials_of(result, each) for each in shares))
        panel.axvspan(low, high, color=GREY, alpha=0.2, linewidth=0)
        panel.axvline(wanted, color=GREY, linewidth=1)
        for each in shares:
            number = measures.index(each.measure)
            colour = COLOURS[number % (len(MAPS) if len(measures) > len(MAPS) else len(COLOURS))]
            lift = (number - (len(measures) - 1) / 2) * 0.1
            filled = colour if number < len(MAPS) and len(measures) > len(MAPS) else "white"
            place = cases.index(each.case) + lift
            panel.plot([each.mean], [place], "o", color=colour, markerfacecolor=filled)
            if each.measure in (ABOVE, BELOW):
                panel.text(each.mean, place, f"  {each.measure.split()[0]}", va="center")
        panel.set_yticks(range(len(cases)), [for_figure(_short(case)) for case in cases])
        panel.set_ylim(len(cases) - 0.5, -0.5)
        panel.set_title(told, loc="left")
        panel.spines[["top", "right"]].set_visible(False)
    for number, name in enumerate(MAPS):
        panels[0].plot([], [], "o", color=COLOURS[number], label=f"{name}, in-sample")
    for number, name in enumerate(MAPS):
        colour = COLOURS[number]
        label = f"{name}, held-out"
        panels[0].plot([], [], "o", color=colour, markerfacecolor="white", label=label)
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    return figure


def _short(case: str) -> str:
    return case.split(", ", 1)[1]
