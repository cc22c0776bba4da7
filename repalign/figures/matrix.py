"""A heat map of one quantity among many views: models in blocks, the best match marked."""

from collections.abc import Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np

from repalign.aliases import FloatArray
from repalign.figures.style import ORANGE, cut_middle, default_style, new_figure
from repalign.printable import for_figure
from repalign.tables.matrix import Matrix, View, arranged, blocks_of
from repalign.tables.table import number

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
# Letters of a line of notes, at most and on an inch.
LONGEST_LINE, LETTERS_AN_INCH = 90, 15


@default_style()
def plot_matrix(matrix: Matrix, *, order: str = "layers", titled: bool = True) -> "Figure":
    """Draw a matrix; pairs that were not compared stay empty, and the figure says how many.

    Args:
        matrix: What to draw.
        order: ``layers`` keeps models together and layers in their order, and marks the best
            target of every source; ``cluster`` puts similar rows and columns together.
        titled: Whether the figure says what it shows.
    """
    is_blocked = order != "cluster"
    if not is_blocked:
        values = array_of(matrix)
        matrix = arranged(matrix, leaf_order(values), leaf_order(values.T))
    values, quantity = array_of(matrix), matrix.quantity
    down, across = (_cell_size(views) for views in (matrix.rows, matrix.columns))
    figure = new_figure(3.4 + across * len(matrix.columns), 2.4 + down * len(matrix.rows))
    axes = figure.subplots()
    low, high = limits(values, quantity.closer)
    # closer is darker, whichever way the numbers run
    colours = "cividis" if quantity.closer == "lower" else "cividis_r"
    image = axes.imshow(values, cmap=colours, vmin=low, vmax=high, aspect="auto")
    if min(down, across) >= LEAST_NUMBERED:
        _write_numbers(axes, values, (low, high), matrix)
    slanted = {"rotation": 60, "ha": "right", "rotation_mode": "anchor"}
    _name_views(axes.xaxis, "target", matrix.columns, slanted, is_blocked=is_blocked)
    _name_views(axes.yaxis, "source", matrix.rows, {}, is_blocked=is_blocked)
    axes.spines[:].set_visible(False)
    notes = [note for note in matrix.notes if titled or "--show" not in note]
    if is_blocked:
        _part_blocks(axes, matrix)
        if mark_best(axes, matrix, min(down, across)):
            notes.append("ringed: the closest target of each source, by model")
    is_cut = np.nanmax(values, initial=low) > high
    if is_cut:
        notes.append(f"colours end at {number(high)}")
    if min(down, across) < LEAST_NAMED:
        notes.append(f"one view in {_label_step(min(down, across))} is named")
    figure.colorbar(
        image,
        ax=axes,
        shrink=0.7,
        extend="max" if is_cut else "neither",
        label=for_figure(quantity.heading_across_targets),
    )
    if titled:
        figure.suptitle(for_figure(matrix.caption), fontsize="medium")
    room = int(LETTERS_AN_INCH * figure.get_figwidth())
    lines = wrap("; ".join(map(for_figure, notes)), min(LONGEST_LINE, room))
    figure.supxlabel("\n".join(lines), fontsize="small", color="#666666")
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


def leaf_order(values: FloatArray) -> list[int]:
    """Return the rows in the order of the leaves of an average-linkage tree.

    Two rows are as far apart as their values differ (root mean square) where both are known; rows
    that share no column are as far apart as any.
    """
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    if len(values) < 3:
        return list(range(len(values)))
    distances = np.full((len(values), len(values)), np.nan)
    for row, base in enumerate(values):
        differences = values - base
        known = np.isfinite(differences)
        total = np.where(known, differences, 0.0)
        with np.errstate(invalid="ignore"):
            distances[row] = np.sqrt((total**2).sum(axis=1) / known.sum(axis=1))
    farthest = np.nanmax(distances, initial=1.0 if np.isnan(distances).all() else 0.0)
    distances = np.where(np.isnan(distances), farthest, distances)
    np.fill_diagonal(distances, 0.0)
    tree = linkage(squareform(distances, checks=False), "average", optimal_ordering=True)
    return [int(leaf) for leaf in leaves_list(tree)]


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


def _cell_size(views: Sequence[View]) -> float:
    """Return the inches of a cell along a side."""
    return min(LARGEST_CELL, LONGEST_SIDE / len(views))


def _label_step(cell: float) -> int:
    """Return how many views share one name."""
    return max(1, int(np.ceil(LEAST_NAMED / cell)))


def _name_views(
    axis: Any, side: str, views: Sequence[View], style: Any, *, is_blocked: bool
) -> None:
    """Name the views along an axis; the first of a block has the name of its model too."""
    cell = _cell_size(views)
    step = _label_step(cell)
    models = _short_models(views)
    ticks = {}
    for model, members in blocks_of(views):
        for place in members[::step]:
            name = models[model]
            if views[place].view:
                name = cut_middle(views[place].view, LONGEST_NAME)
                if len(models) > 1 and (place == members[0] or not is_blocked):
                    name = f"{models[model]}  {name}"
            ticks[place] = for_figure(name)
    axis.set_ticks(list(ticks), list(ticks.values()), **style)
    axis.set_tick_params(labelsize=float(np.clip(72 * 0.75 * cell * step, 5, 9)), length=2)
    is_one_model = len(models) == 1 and any(view.view for view in views)
    axis.set_label_text(f"{side}: {for_figure(*models.values())}" if is_one_model else side)


def _short_models(views: Sequence[View]) -> dict[str, str]:
    """Return names without folder and ending, unless two of them were the same then."""
    models = list(dict.fromkeys(view.model for view in views))
    short = [model.rsplit("/", 1)[-1].removesuffix(".h5") for model in models]
    names = short if len(set(short)) == len(short) else models
    return {
        model: cut_middle(name, LONGEST_NAME) for model, name in zip(models, names, strict=True)
    }


def _write_numbers(
    axes: "Axes", values: FloatArray, ends: tuple[float, float], matrix: Matrix
) -> None:
    low, high = ends
    for row, column in matrix.values:
        value = float(values[row, column])
        is_known = bool(np.isfinite(value))
        share = (value - low) / (high - low) if is_known else 0.0
        is_dark = is_known and (share < 0.6) == (matrix.quantity.closer == "lower")
        text = number(value if is_known else None)
        colour = "#ffffff" if is_dark else "#111111"
        axes.text(column, row, text, ha="center", va="center", color=colour, size=7)


def _part_blocks(axes: "Axes", matrix: Matrix) -> None:
    """Draw a white line between models."""
    for views, draw in ((matrix.rows, axes.axhline), (matrix.columns, axes.axvline)):
        for _, members in list(blocks_of(views))[1:]:
            draw(members[0] - 0.5, color="white", linewidth=2)
