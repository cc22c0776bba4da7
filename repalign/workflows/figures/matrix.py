"""A heat map of one quantity among many views: models in blocks, the best match marked."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from repalign.aliases import FloatArray
from repalign.printable import for_figure
from repalign.workflows.figures.clustering import clustered
from repalign.workflows.figures.drawing import ORANGE, cut_middle, in_default_style, new_figure
from repalign.workflows.tables.grid import number
from repalign.workflows.tables.matrix import Matrix, View, blocks_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Inches: a cell is at most so large, a side about so long; a name needs so much.
LARGEST_CELL, LONGEST_SIDE, LEAST_NAMED = 0.55, 11.0, 0.11
# Smaller cells hold no number that can be read.
LEAST_NUMBERED = 0.36
# A permutation between spaces of different scale misses by several diameters: colours end at so
# many times the value that nine cells of ten stay under, and the figure says so.
CUT_OVER_MOST = 1.5
LONGEST_NAME = 28
LINE_OF_NOTES = 90


@dataclass(frozen=True)
class Side:
    """The names along one side, and how large the cells are."""

    views: tuple[View, ...]

    @property
    def cell(self) -> float:
        """Inches of a cell."""
        return min(LARGEST_CELL, LONGEST_SIDE / len(self.views))

    @property
    def every(self) -> int:
        """How many views share one name."""
        return max(1, int(np.ceil(LEAST_NAMED / self.cell)))

    @property
    def font_size(self) -> float:
        """Points of a name."""
        return float(np.clip(72 * 0.75 * self.cell * self.every, 5, 9))

    def ticks(self, *, is_blocked: bool) -> tuple[list[int], list[str]]:
        """Return the places of names, and the names; the first of a block names its model too."""
        short = _short_models(self.views)
        places, names = [], []
        for model, members in blocks_of(self.views):
            for order, place in enumerate(members[:: self.every]):
                view = self.views[place]
                is_first = order == 0 or not is_blocked
                name = short[model] if not view.view else cut_middle(view.view, LONGEST_NAME)
                if view.view and is_first and len(short) > 1:
                    name = f"{short[model]}  {name}"
                places.append(place)
                names.append(for_figure(name))
        return places, names


@in_default_style
def plot_matrix(matrix: Matrix, *, order: str = "layers", titled: bool = True) -> "Figure":
    """Draw a matrix; pairs that were not compared stay empty, and the figure says how many.

    Args:
        matrix: What to draw.
        order: ``layers`` keeps models together and layers in their order, and marks the best
            target of every source; ``cluster`` puts similar rows and columns together.
        titled: Whether the figure says what it shows.
    """
    is_blocked = order != "cluster"
    matrix = matrix if is_blocked else clustered(matrix)
    down, across = Side(matrix.rows), Side(matrix.columns)
    values = array_of(matrix)
    figure = new_figure(3.4 + across.cell * len(across.views), 2.4 + down.cell * len(down.views))
    axes = figure.subplots()
    low, high = limits(values, matrix.quantity.closer)
    # closer is darker, whichever way the numbers run
    colours = "cividis" if matrix.quantity.closer == "lower" else "cividis_r"
    drawn = axes.imshow(values, cmap=colours, vmin=low, vmax=high, aspect="auto")
    if min(down.cell, across.cell) >= LEAST_NUMBERED:
        _write_numbers(axes, values, (low, high), matrix)
    places, names = across.ticks(is_blocked=is_blocked)
    axes.set_xticks(places, names, rotation=60, ha="right", rotation_mode="anchor")
    axes.tick_params(axis="x", labelsize=across.font_size, length=2)
    places, names = down.ticks(is_blocked=is_blocked)
    axes.set_yticks(places, names)
    axes.tick_params(axis="y", labelsize=down.font_size, length=2)
    axes.set_xlabel(_axis_name("target", matrix.columns))
    axes.set_ylabel(_axis_name("source", matrix.rows))
    axes.spines[:].set_visible(False)
    notes = [*matrix.notes] if titled else [each for each in matrix.notes if "--show" not in each]
    if is_blocked:
        _part_blocks(axes, matrix)
        if mark_best(axes, matrix, min(down.cell, across.cell)):
            notes.append("ringed: the closest target of each source, by model")
    if np.nanmax(values, initial=low) > high:
        notes.append(f"colours end at {number(high)}")
    every = max(down.every, across.every)
    if every > 1:
        notes.append(f"one view in {every} is named")
    ends = "max" if np.nanmax(values, initial=low) > high else "neither"
    figure.colorbar(
        drawn,
        ax=axes,
        shrink=0.7,
        extend=ends,
        label=for_figure(matrix.quantity.heading_across_targets),
    )
    if titled:
        figure.suptitle(for_figure(matrix.what), fontsize="medium")
    figure.supxlabel("\n".join(_lines(notes)), fontsize="small", color="#666666")
    return figure


def array_of(matrix: Matrix) -> FloatArray:
    """Return the values as an array; NaN where there is none."""
    values = np.full((len(matrix.rows), len(matrix.columns)), np.nan)
    for place, value in matrix.values.items():
        if value is not None:
            values[place] = value
    return values


def limits(values: FloatArray, closer: str) -> tuple[float, float]:
    """Return where the colours begin and end.

    They begin at the least value, but span at least half of the largest: what hardly differs is
    to look alike.
    """
    known = values[np.isfinite(values)]
    if not known.size:
        return 0.0, 1.0
    low, high = float(known.min()), float(known.max())
    if closer == "higher":
        high = max(high, 1.0)
    else:
        usual = CUT_OVER_MOST * float(np.quantile(known, 0.9))
        high = min(high, usual) if usual > 0 else max(high, 1e-9)
    return min(low, high / 2), high


def mark_best(axes: "Axes", matrix: Matrix, cell: float) -> bool:
    """Ring the closest target of every source and join the rings of one pair of models."""
    runs: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for (row, model), column in matrix.closest().items():
        runs.setdefault((matrix.rows[row].model, model), []).append((row, column))
    for run in runs.values():
        rows, columns = zip(*run, strict=True)
        axes.plot(
            columns,
            rows,
            color=ORANGE,
            linewidth=0.8 if len(run) > 1 else 0,
            marker="o",
            markersize=float(np.clip(50 * cell, 1.5, 22)),
            markerfacecolor="none",
            markeredgewidth=0.9,
        )
    return bool(runs)


def _write_numbers(
    axes: "Axes", values: FloatArray, ends: tuple[float, float], matrix: Matrix
) -> None:
    low, high = ends
    for row, column in matrix.values:
        value = values[row, column]
        share = (value - low) / (high - low) if np.isfinite(value) else 0.0
        is_dark = (share < 0.6) == (matrix.quantity.closer == "lower")
        axes.text(
            column,
            row,
            number(float(value)) if np.isfinite(value) else number(None),
            ha="center",
            va="center",
            color="#ffffff" if is_dark and np.isfinite(value) else "#111111",
            size=7,
        )


def _part_blocks(axes: "Axes", matrix: Matrix) -> None:
    """Draw a white line between models."""
    for _, members in list(blocks_of(matrix.rows))[1:]:
        axes.axhline(members[0] - 0.5, color="white", linewidth=2)
    for _, members in list(blocks_of(matrix.columns))[1:]:
        axes.axvline(members[0] - 0.5, color="white", linewidth=2)


def _axis_name(side: str, views: Sequence[View]) -> str:
    short = _short_models(views)
    has_views = any(view.view for view in views)
    return f"{side}: {for_figure(*short.values())}" if len(short) == 1 and has_views else side


def _short_models(views: Sequence[View]) -> dict[str, str]:
    """Return names without folder and ending, unless two of them were the same then."""
    models = list(dict.fromkeys(view.model for view in views))
    short = [model.rsplit("/", 1)[-1].removesuffix(".h5") for model in models]
    chosen = short if len(set(short)) == len(short) else models
    return {
        model: cut_middle(name, LONGEST_NAME) for model, name in zip(models, chosen, strict=True)
    }


def _lines(notes: Sequence[str]) -> Iterator[str]:
    from textwrap import wrap

    yield from wrap("; ".join(map(for_figure, notes)), LINE_OF_NOTES)
