"""What the shares of the calibration mean: which lie within chance of what they should be."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from repalign.experiments.calibration.twins import ABOVE, BELOW, N_TWINS
from repalign.experiments.reproduce.drawing import COLOURS
from repalign.printable import for_figure
from repalign.workflows.figures.drawing import GREY, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from repalign.experiments.reproduce.results import Reproduction, Summary

# Beginning of the names of measures → what they are shares of, and which share is claimed.
EXPECTED: Mapping[str, tuple[str, float]] = {
    "p ≤ .05": ("false positives at .05", 0.05),
    "held": ("95 % intervals that hold", 0.95),
    ABOVE: (f"Gaussian pairs above all {N_TWINS} twins", 1 / (N_TWINS + 1)),
    BELOW: (f"Gaussian pairs below all {N_TWINS} twins", 1 / (N_TWINS + 1)),
}
# What ICA has a part in, and the rest.
ICA, REST = ("ica", "efficiency"), "other numbers"


def chance(share: float, n_trials: int) -> tuple[float, float]:
    """Return between which shares of so many trials 99 % of chance lies."""
    from scipy.stats import binom

    low, high = binom.ppf([0.005, 0.995], n_trials, share)
    return float(low) / n_trials, float(high) / n_trials


def trials_of(result: "Reproduction", each: "Summary") -> int:
    """Return how many trials a share is of."""
    by_name = {outcome.case.name: outcome.case for outcome in result.outcomes}
    return int(getattr(by_name[each.case], "n_trials")) * len(each.values)  # noqa: B009


def has_ica(each: "Summary") -> bool:
    """Tell whether a share is of numbers that hang on ICA."""
    return each.measure.split(", ")[-1].startswith(ICA)


def of_kind(result: "Reproduction", begins: str) -> list["Summary"]:
    """Return the shares of one kind that are known."""
    return [
        each
        for each in result.results()
        if each.measure.startswith(begins) and each.mean == each.mean
    ]


def sentences(result: "Reproduction") -> Sequence[str]:
    """Say how many shares are what they should be, and name the others."""
    lines = []
    for begins, (told, wanted) in EXPECTED.items():
        shares = of_kind(result, begins)
        for ica in (False, True):
            some = [each for each in shares if has_ica(each) == ica]
            if some:
                lines.append(_sentence(result, some, told + (" of ICA" if ica else ""), wanted))
    return lines


def _sentence(result: "Reproduction", shares: Sequence["Summary"], told: str, wanted: float) -> str:
    low_side: list[str] = []
    high_side: list[str] = []
    for each in shares:
        low, high = chance(wanted, trials_of(result, each))
        if not low <= each.mean <= high:
            side = low_side if each.mean < low else high_side
            side.append(f"{each.mean:.3f} ({each.case}: {each.measure})")
    values = [each.mean for each in shares]
    n_within = len(shares) - len(low_side) - len(high_side)
    line = (
        f"Share of {told}: {min(values):.3f} to {max(values):.3f} in {len(shares)} cells, where "
        f"{wanted:g} is claimed; {n_within} lie within 99 % of chance."
    )
    for where, odd in (("Below", low_side), ("Above", high_side)):
        line += f" {where}: {'; '.join(odd)}." if odd else ""
    return line


def plot(result: "Reproduction") -> "Figure":
    """Draw every share by case, a panel for each kind, with the band of chance behind."""
    kinds = [
        (*EXPECTED[begins], shares) for begins in EXPECTED if (shares := of_kind(result, begins))
    ]
    heights = [len({each.case for each in shares}) for *_, shares in kinds]
    figure = new_figure(7.6, 1.4 + 0.22 * sum(heights) + 0.5 * len(kinds))
    panels = figure.subplots(len(kinds), squeeze=False, height_ratios=heights)[:, 0]
    for panel, (told, wanted, shares) in zip(panels, kinds, strict=True):
        cases = list(dict.fromkeys(each.case for each in shares))
        low, high = chance(wanted, min(trials_of(result, each) for each in shares))
        panel.axvspan(low, high, color=GREY, alpha=0.2, linewidth=0)
        panel.axvline(wanted, color=GREY, linewidth=1)
        for each in shares:
            inside = "in-sample" in each.measure
            colour = COLOURS[1 if has_ica(each) else 0]
            place = cases.index(each.case) + (-0.15 if inside else 0.15)
            face = colour if inside else "white"
            panel.plot([each.mean], [place], "o", ms=4, color=colour, markerfacecolor=face)
        panel.set_yticks(
            range(len(cases)), [for_figure(case.split(", ", 1)[1]) for case in cases], fontsize=7
        )
        panel.set_ylim(len(cases) - 0.5, -0.5)
        panel.set_title(told, loc="left")
        panel.spines[["top", "right"]].set_visible(False)
    for number, name in enumerate((REST, "ICA maps and efficiency")):
        for told, face in (("in-sample", COLOURS[number]), ("held-out, and others", "white")):
            panels[0].plot(
                [], [], "o", ms=4, color=COLOURS[number], markerfacecolor=face,
                label=f"{name}, {told}",
            )  # fmt: skip
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return figure
