"""Figures of one pair beside its errors: splits, nulls, components, spectra, kurtosis."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from repalign.workflows.figures.drawing import (
    BLUE,
    GREY,
    ORANGE,
    in_default_style,
    new_figure,
    plain_axes,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Record = Mapping[str, Any]
_SIDES = {"source": BLUE, "target": ORANGE}


@in_default_style
def plot_splits(records: Sequence[Record]) -> "Figure":
    """Draw the error of every map in-sample and held-out, joined by a line."""
    figure = new_figure()
    axes = plain_axes(figure)
    errors = {(r["map"], r["split"]): r["error"] for r in records if r["error"] is not None}
    maps = list(dict.fromkeys(r["map"] for r in records))
    for row, name in enumerate(maps):
        ends = [errors.get((name, split)) for split in ("in-sample", "held-out")]
        known = [end for end in ends if end is not None]
        axes.plot(known, [row] * len(known), color=GREY, linewidth=1.5, zorder=1)
        for end, colour in zip(ends, (BLUE, ORANGE), strict=True):
            if end is not None:
                axes.scatter([end], [row], color=colour, zorder=2)
    axes.scatter([], [], color=BLUE, label="in-sample")
    axes.scatter([], [], color=ORANGE, label="held-out")
    axes.set_yticks(range(len(maps)), maps)
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    axes.set_xlabel("error / diameter of the target")
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return figure


@in_default_style
def plot_nulls(nulls: Mapping[str, Sequence[float]], records: Sequence[Record]) -> "Figure":
    """Draw the errors on shuffled pairs as ticks, and the error on the true pairs as a mark."""
    figure = new_figure()
    axes = plain_axes(figure)
    split = "held-out" if any(key.startswith("held-out/") for key in nulls) else "in-sample"
    errors = {r["map"]: r["error"] for r in records if r["split"] == split}
    maps = [key.split("/", 1)[1] for key in nulls if key.startswith(f"{split}/")]
    for row, name in enumerate(maps):
        draws = nulls[f"{split}/{name}"]
        axes.scatter(draws, [row] * len(draws), marker="|", s=160, color=GREY, alpha=0.5)
        if errors.get(name) is not None:
            axes.scatter([errors[name]], [row], color=ORANGE, marker="D", zorder=2)
    axes.scatter([], [], marker="|", s=160, color=GREY, label="shuffled pairs")
    axes.scatter([], [], marker="D", color=ORANGE, label="true pairs")
    axes.set_yticks(range(len(maps)), maps)
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    axes.set_xlabel(f"{split} error / diameter of the target")
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return figure


@in_default_style
def plot_correlations(correlations: Sequence[float]) -> "Figure":
    """Draw the correlation of every matched pair of ICA components, the strongest first."""
    figure = new_figure()
    axes = plain_axes(figure)
    values = sorted((abs(value) for value in correlations), reverse=True)
    axes.bar(range(1, len(values) + 1), values, color=BLUE, width=0.9)
    axes.axhline(0.9, color=GREY, linestyle="dotted", linewidth=1)
    axes.set_ylim(0, 1)
    axes.set_xlabel("matched pair of components")
    axes.set_ylabel("|correlation|")
    return figure


@in_default_style
def plot_spectra(spectra: Mapping[str, Sequence[float]]) -> "Figure":
    """Draw the share of the variance along every principal direction of both sides."""
    figure = new_figure()
    axes = plain_axes(figure)
    for side, colour in _SIDES.items():
        values = list(spectra[side])
        shares = [value / sum(values) for value in values if value > 0]
        axes.plot(range(1, len(shares) + 1), shares, color=colour, label=side, marker=".")
    # a direction of rank zero is rounding, and would stretch the axis over ten decades
    axes.set_yscale("log")
    axes.set_ylim(bottom=1e-7)
    axes.set_xlabel("principal direction")
    axes.set_ylabel("share of variance")
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return figure


@in_default_style
def plot_kurtosis(reports: Sequence[Mapping[str, Any]]) -> "Figure":
    """Draw the excess kurtosis of the ICA components of both sides, the largest first."""
    figure = new_figure()
    axes = plain_axes(figure)
    for report in reports:
        values = sorted(report["kurtosis"], reverse=True)
        places = range(1, len(values) + 1)
        axes.plot(places, values, color=_SIDES[report["side"]], label=report["side"], marker=".")
    axes.axhline(0, color=GREY, linestyle="dotted", linewidth=1)
    axes.set_yscale("symlog")
    axes.set_xlabel("ICA component")
    axes.set_ylabel("excess kurtosis (Gaussian: 0)")
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return figure
