"""A heat map of the errors among many models."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from repalign.printable import for_figure
from repalign.workflows.figures.drawing import new_figure
from repalign.workflows.tables.errors import short_number
from repalign.workflows.tables.layout import side_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Record = Mapping[str, Any]
_INCHES_A_MODEL = 0.55
_SIDES = ("source", "target")


def plot_models(records: Sequence[Record], name: str, split: str) -> "Figure":
    """Draw the error of one map for every pair of models; pairs not compared stay empty."""
    chosen = [r for r in records if (r["map"], r["split"]) == (name, split)]
    sources, targets = (
        list(dict.fromkeys(side_name(record, side) for record in chosen)) for side in _SIDES
    )
    errors = np.full((len(sources), len(targets)), np.nan)
    for record in chosen:
        if record["error"] is not None:
            place = (
                sources.index(side_name(record, "source")),
                targets.index(side_name(record, "target")),
            )
            errors[place] = record["error"]
    width, height = (_INCHES_A_MODEL * len(names) for names in (targets, sources))
    figure = new_figure(2.8 + width, 1.8 + height)
    axes = figure.subplots()
    drawn = axes.imshow(errors, cmap="cividis", vmin=0)
    for row, column in np.argwhere(np.isfinite(errors)):
        value = errors[row, column]
        shade = "#ffffff" if value < 0.6 * np.nanmax(errors) else "#111111"
        axes.text(column, row, short_number(value), ha="center", va="center", color=shade, size=8)
    axes.set_xticks(range(len(targets)), _short(targets), rotation=40, ha="right")
    axes.set_yticks(range(len(sources)), _short(sources))
    axes.set_xlabel("target")
    axes.set_ylabel("source")
    axes.spines[:].set_visible(False)
    figure.colorbar(drawn, ax=axes, shrink=0.7, label=f"{name}, {split} error / diameter")
    return figure


def _short(names: Sequence[str]) -> list[str]:
    """Return names without folder and ending, unless two of them were the same then."""
    short = [name.rsplit("/", 1)[-1].replace(".h5::", "::").removesuffix(".h5") for name in names]
    return [for_figure(name) for name in (short if len(set(short)) == len(names) else names)]
