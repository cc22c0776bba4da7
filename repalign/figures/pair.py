"""Figures of one pair besides its errors: splits, nulls, components, spectra, kurtosis."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from repalign.figures.style import (
    BLUE,
    GREY,
    ORANGE,
    SIDES,
    SPLITS,
    add_legend,
    default_style,
    new_panel,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Record = Mapping[str, Any]


@default_style()
def plot_splits(records: Sequence[Record]) -> "Figure":
    """Draw the error of every map in-sample and held-out, joined by a line."""
    figure, axes = new_panel()
    errors = {(r["map"], r["split"]): r["error"] for r in records if r["error"] is not None}
    maps = list(dict.fromkeys(r["map"] for r in records))
    for row, name in enumerate(maps):
        ends = {split: errors[name, split] for split in SPLITS if (name, split) in errors}
        axes.plot(list(ends.values()), [row] * len(ends), color=GREY, linewidth=1.5, zorder=1)
        for split, error in ends.items():
            axes.scatter([error], [row], color=SPLITS[split], zorder=2)
    for split, colour in SPLITS.items():
        axes.scatter([], [], color=colour, label=split)
    _name_rows(axes, maps, "error / diameter of the target")
    add_legend(figure)
    return figure


@default_style()
def plot_nulls(nulls: Mapping[str, Sequence[float]], records: Sequence[Record]) -> "Figure":
    """Draw the errors on shuffled pairs as ticks, and the error on the true pairs as a mark."""
    figure, axes = new_panel()
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
    _name_rows(axes, maps, f"{split} error / diameter of the target")
    add_legend(figure)
    return figure


@default_style()
def plot_correlations(correlations: Sequence[float]) -> "Figure":
    """Draw the correlation of every matched pair of ICA components, the strongest first."""
    figure, axes = new_panel()
    values = sorted(map(abs, correlations), reverse=True)
    axes.bar(range(1, len(values) + 1), values, color=BLUE, width=0.9)
    axes.axhline(0.9, color=GREY, linestyle="dotted", linewidth=1)
    axes.set_ylim(0, 1)
    axes.set_xlabel("matched pair of components")
    axes.set_ylabel("|correlation|")
    return figure


@default_style()
def plot_spectra(spectra: Mapping[str, Sequence[float]]) -> "Figure":
    """Draw the share of the variance along every principal direction of both sides."""
    figure, axes = new_panel()
    for side in SIDES:
        total = sum(spectra[side])
        _draw_curve(axes, side, [value / total for value in spectra[side] if value > 0])
    # a direction of rank zero is rounding, and would stretch the axis over ten decades
    axes.set_yscale("log")
    axes.set_ylim(bottom=1e-7)
    axes.set_xlabel("principal direction")
    axes.set_ylabel("share of variance")
    add_legend(figure)
    return figure


@default_style()
def plot_kurtosis(kurtosis: Mapping[str, Sequence[float]]) -> "Figure":
    """Draw the excess kurtosis of the ICA components of both sides, the largest first."""
    figure, axes = new_panel()
    for side, values in kurtosis.items():
        _draw_curve(axes, side, sorted(values, reverse=True))
    axes.axhline(0, color=GREY, linestyle="dotted", linewidth=1)
    axes.set_yscale("symlog")
    axes.set_xlabel("ICA component")
    axes.set_ylabel("excess kurtosis (Gaussian: 0)")
    add_legend(figure)
    return figure


def _draw_curve(axes: "Axes", side: str, values: Sequence[float]) -> None:
    axes.plot(range(1, len(values) + 1), values, color=SIDES[side], label=side, marker=".")


def _name_rows(axes: "Axes", maps: Sequence[str], label: str) -> None:
    """Name a row a map, the first above, and the axis of errors, which begins at 0."""
    axes.set_yticks(range(len(maps)), maps)
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    axes.set_xlabel(label)
