"""Bars of the error of every map, in-sample next to held-out, with intervals and nulls."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from repalign.figures.style import (
    GREY,
    SPLITS,
    cut_middle,
    default_style,
    new_figure,
)
from repalign.printable import for_figure
from repalign.tables.table import pair_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Record = Mapping[str, Any]
PANELS_ACROSS = 3
# Letters on a line over a panel.
LONGEST_TITLE = 50
# More would be too small to read, and too large a picture to open.
MOST_PANELS = 60
# A permutation between spaces of different scale misses by several diameters. Bars end at this
# many times the largest error of predicting the mean, and say how far they would go.
CUT_OVER_MEAN = 1.6


@default_style()
def plot_errors(records: Sequence[Record], *, titled: bool = True) -> "Figure":
    """Draw one panel a pair; maps whose error lives in another space than the target's too.

    Beyond ``MOST_PANELS`` pairs the figure says how many it left out.
    """
    by_pair: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        by_pair.setdefault(pair_of(record), []).append(record)
    drawn = dict(list(by_pair.items())[:MOST_PANELS])
    across = 2 if len(drawn) == 4 else min(len(drawn), PANELS_ACROSS)
    down = -(-len(drawn) // across)
    figure = new_figure(1.2 + 4.4 * across, 3.6 * down) if titled else new_figure()
    panels = figure.subplots(down, across, squeeze=False, sharey=True).ravel()
    limit = _limit([record for members in drawn.values() for record in members])
    for panel, (pair, members) in zip(panels, drawn.items(), strict=False):
        _draw_pair(panel, members)
        _cut_bars(panel, limit)
        if titled:
            panel.set_title(_title(*pair), fontsize="medium")
    for panel in panels[len(drawn) :]:
        panel.set_visible(False)
    for panel in panels[::across]:
        panel.set_ylabel("error / diameter of the target")
    if len(drawn) < len(by_pair):
        left_out = f"{len(by_pair) - len(drawn)} of {len(by_pair)} pairs are left out"
        figure.suptitle(f"{left_out}; repalign report shows them all", fontsize="medium")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    return figure


def _title(source: str, target: str) -> str:
    """Return the names of a pair on one line, or on two, as wide as a panel at most."""
    whole = f"{source} → {target}"
    if len(whole) <= LONGEST_TITLE:
        return for_figure(whole)
    lines = cut_middle(source, LONGEST_TITLE), f"→ {cut_middle(target, LONGEST_TITLE - 2)}"
    return "\n".join(map(for_figure, lines))


def _draw_pair(panel: "Axes", records: Sequence[Record]) -> None:
    maps = list(dict.fromkeys(record["map"] for record in records))
    splits = [split for split in SPLITS if any(r["split"] == split for r in records)]
    width = 0.8 / len(splits)
    for number, split in enumerate(splits):
        shift = (number - (len(splits) - 1) / 2) * width
        shown = [r for r in records if r["split"] == split and r["error"] is not None]
        bars = {maps.index(record["map"]) + shift: record for record in shown}
        errors = [record["error"] for record in shown]
        panel.bar(list(bars), errors, width, color=SPLITS[split], label=split)
        for place, record in bars.items():
            if record["ci_low"] is not None and record["ci_high"] is not None:
                panel.vlines(
                    place, record["ci_low"], record["ci_high"], color="black", linewidth=1.2
                )
        nulls = {place: record["null"] for place, record in bars.items() if record["null"]}
        if nulls:
            panel.hlines(
                list(nulls.values()),
                [place - width / 2 for place in nulls],
                [place + width / 2 for place in nulls],
                color=GREY,
                linestyle="dotted",
                label="null (shuffled pairs)" if number == 0 else "_",
            )
    panel.set_xticks(range(len(maps)), maps, rotation=30, ha="right")
    panel.spines[["top", "right"]].set_visible(False)


def _limit(records: Sequence[Record]) -> float:
    """Return where the axis ends: above every bar, or where bars are cut."""
    tops = [r[name] for r in records for name in ("error", "null", "ci_high") if r[name]]
    means = [r["error"] for r in records if r["map"] == "mean" and r["error"] is not None]
    highest = 1.05 * max(tops, default=1.0)
    return min(highest, CUT_OVER_MEAN * max(means)) if means else highest


def _cut_bars(panel: "Axes", limit: float) -> None:
    """End the axis at the limit and write on cut bars how high they are."""
    panel.set_ylim(0, limit)
    style: dict[str, Any] = {"ha": "center", "va": "top", "rotation": 90}
    for bar in panel.patches:
        height = bar.get_height()  # type: ignore[attr-defined]
        if height > limit:
            middle = bar.get_x() + bar.get_width() / 2  # type: ignore[attr-defined]
            text = f"{height:.1f} ↑"
            panel.text(middle, 0.97 * limit, text, color="white", fontsize="small", **style)
