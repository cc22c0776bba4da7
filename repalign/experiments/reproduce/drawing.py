"""Figures of experiments: a point a seed, their mean, its interval, the paper's value."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from repalign.experiments.reproduce.results import Reproduction, Summary
from repalign.figures.style import BLUE, GREY, ORANGE, new_figure
from repalign.printable import for_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GREEN, PURPLE = "#228833", "#aa3377"
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, GREY)
_FADED = 0.45


def dot_plot(
    result: Reproduction,
    measures: Sequence[str],
    *,
    label: str,
    limits: tuple[float, float] | None = None,
) -> "Figure":
    """Draw a line a case with a mark for each measure, seeds behind their mean."""
    cases = result.cases
    figure = new_figure(7.2, 1.2 + 0.42 * len(cases))
    panel = figure.subplots()
    panel.spines[["top", "right"]].set_visible(False)
    drawn = {(each.case, each.measure): each for each in result.results()}
    step = 0.6 / len(measures)
    for number, measure in enumerate(measures):
        colour = COLOURS[number % len(COLOURS)]
        lift = (number - (len(measures) - 1) / 2) * step
        places = [
            (place + lift, drawn[case, measure])
            for place, case in enumerate(cases)
            if (case, measure) in drawn
        ]
        for height, each in places:
            _draw_mark(panel, height, each, colour)
            if limits is not None and each.mean > limits[1]:
                beyond = f"{each.mean:.2f} →"
                panel.text(limits[1], height, beyond, color=colour, ha="right", va="center")
        panel.plot([], [], "o", color=colour, label=for_figure(measure))
    panel.set_yticks(range(len(cases)), [for_figure(case) for case in cases])
    panel.invert_yaxis()
    panel.grid(axis="x", color=GREY, alpha=0.25)
    panel.set_xlabel(label)
    if limits is not None:
        panel.set_xlim(*limits)
    if any(isinstance(each.published, float) for each in drawn.values()):
        panel.plot([], [], "D", color="black", markerfacecolor="white", label="published")
    figure.legend(loc="outside lower center", ncols=min(4, len(measures) + 1), frameon=False)
    return figure


def _draw_mark(panel: "Axes", height: float, each: Summary, colour: str) -> None:
    panel.plot(
        each.values, [height] * len(each.values), "o", color=colour, alpha=_FADED, markersize=3
    )
    panel.plot([each.mean], [height], "o", color=colour, markersize=6)
    if each.low == each.low:
        panel.hlines(height, each.low, each.high, color=colour, linewidth=1.5)
    if isinstance(each.published, float):
        panel.plot([each.published], [height], "D", color=colour, markerfacecolor="white")


def draw_curve(panel: "Axes", points: Sequence[Summary], *, colour: str, label: str) -> None:
    """Draw a curve of means with the interval over seeds, every seed thin behind it."""
    places = [each.at or 0.0 for each in points]
    for values in zip(*(each.values for each in points), strict=True):
        panel.plot(places, values, color=colour, alpha=0.25, linewidth=0.8)
    panel.plot(places, [each.mean for each in points], color=colour, label=for_figure(label))
    panel.fill_between(
        places,
        [each.low for each in points],
        [each.high for each in points],
        color=colour,
        alpha=0.15,
        linewidth=0,
    )
