"""Bars of the error of every map, in-sample beside held-out, with intervals and nulls."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from repalign.printable import for_figure
from repalign.workflows.figures.drawing import (
    BLUE,
    GREY,
    ORANGE,
    cut_middle,
    in_default_style,
    new_figure,
)
from repalign.workflows.tables.layout import side_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Record = Mapping[str, Any]
COLOURS = {"in-sample": BLUE, "held-out": ORANGE}
PANELS_ACROSS = 3
# Letters on a line over a panel.
LONGEST_TITLE = 50
# More would be too small to read, and too large a picture to open.
MOST_PANELS = 60
# A permutation between spaces of different scale misses by several diameters. Bars end at this
# many times the largest error of predicting the mean, and say how far they would go.
CUT_OVER_MEAN = 1.6


@in_default_style
def plot_errors(records: Sequence[Record], *, titled: bool = True) -> "Figure":
    """Draw one panel a pair; maps whose error lives in another space than the target's too.

    Beyond ``MOST_PANELS`` pairs the figure says how many it left out.
    """
    every = list(dict.fromkeys(_pair(record) for record in records))
    pairs = every[:MOST_PANELS]
    across = 2 if len(pairs) == 4 else min(len(pairs), PANELS_ACROSS)
    down = -(-len(pairs) // across)
    figure = new_figure(1.2 + 4.4 * across, 3.6 * down) if titled else new_figure()
    panels = figure.subplots(down, across, squeeze=False, sharey=True).ravel()
    for panel, pair in zip(panels, pairs, strict=False):
        _draw_pair(panel, [record for record in records if _pair(record) == pair])
        if titled:
            panel.set_title(_title(*pair), fontsize="medium")
    limit = _limit([record for record in records if _pair(record) in pairs])
    for panel in panels[: len(pairs)]:
        _cut_bars(panel, limit)
    for panel in panels[len(pairs) :]:
        panel.set_visible(False)
    for panel in panels[::across]:
        panel.set_ylabel("error / diameter of the target")
    handles, labels = panels[0].get_legend_handles_labels()
    if len(pairs) < len(every):
        left_out = f"{len(every) - len(pairs)} of {len(every)} pairs are left out"
        figure.suptitle(f"{left_out}; repalign report shows them all", fontsize="medium")
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    return figure


def _pair(record: Record) -> tuple[str, str]:
    return side_name(record, "source"), side_name(record, "target")


def _title(source: str, target: str) -> str:
    """Return the names of a pair on one line, or on two, as wide as a panel at most."""
    whole = f"{source} → {target}"
    if len(whole) <= LONGEST_TITLE:
        return for_figure(whole)
    lines = cut_middle(source, LONGEST_TITLE), f"→ {cut_middle(target, LONGEST_TITLE - 2)}"
    return "\n".join(map(for_figure, lines))


def _draw_pair(panel: "Axes", records: Sequence[Record]) -> None:
    maps = list(dict.fromkeys(record["map"] for record in records))
    splits = [split for split in COLOURS if any(r["split"] == split for r in records)]
    width = 0.8 / len(splits)
    for number, split in enumerate(splits):
        chosen = {r["map"]: r for r in records if r["split"] == split and r["error"] is not None}
        places = [maps.index(name) + (number - (len(splits) - 1) / 2) * width for name in chosen]
        errors = [record["error"] for record in chosen.values()]
        panel.bar(places, errors, width, color=COLOURS[split], label=split)
        _draw_intervals(panel, places, list(chosen.values()))
        nulls = [(x, r["null"]) for x, r in zip(places, chosen.values(), strict=True) if r["null"]]
        if nulls:
            panel.hlines(
                [null for _, null in nulls],
                [x - width / 2 for x, _ in nulls],
                [x + width / 2 for x, _ in nulls],
                color=GREY,
                linestyle="dotted",
                label="null (shuffled pairs)" if number == 0 else "_",
            )
    panel.set_xticks(range(len(maps)), maps, rotation=30, ha="right")
    panel.spines[["top", "right"]].set_visible(False)


def _limit(records: Sequence[Record]) -> float:
    """Return where the axis ends: above every bar, or where bars are cut."""
    errors = [record["error"] for record in records if record["error"] is not None]
    tops = [
        *errors,
        *(r["null"] for r in records if r["null"]),
        *(r["ci_high"] or 0 for r in records),
    ]
    means = [r["error"] for r in records if r["map"] == "mean" and r["error"] is not None]
    highest = 1.05 * max(tops, default=1.0)
    return min(highest, CUT_OVER_MEAN * max(means)) if means else highest


def _cut_bars(panel: "Axes", limit: float) -> None:
    """End the axis at the limit and write on cut bars how high they are."""
    panel.set_ylim(0, limit)
    for bar in panel.patches:
        height = bar.get_height()  # type: ignore[attr-defined]
        if height > limit:
            middle = bar.get_x() + bar.get_width() / 2  # type: ignore[attr-defined]
            panel.text(
                middle,
                0.97 * limit,
                f"{height:.1f} ↑",
                ha="center",
                va="top",
                rotation=90,
                color="white",
                fontsize="small",
            )


def _draw_intervals(panel: "Axes", places: Sequence[float], records: Sequence[Record]) -> None:
    for place, record in zip(places, records, strict=True):
        if record["ci_low"] is not None and record["ci_high"] is not None:
            panel.vlines(place, record["ci_low"], record["ci_high"], color="black", linewidth=1.2)
