"""What every latent knows of every factor, as pictures."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from repalign.disentanglement.results import InformationMatrix
from repalign.exceptions import InputError
from repalign.figures.style import cut_middle, default_style, new_figure
from repalign.printable import for_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# More cells than this are no longer told apart by their numbers.
MOST_NUMBERED = 200
MOST_NAMED = 30
# Of a title above a panel, about.
LETTERS_AN_INCH = 9


@default_style()
def plot_information(matrices: Sequence[InformationMatrix]) -> "Figure":
    """Draw one matrix (factors × latents) below another, pruned latents named so.

    Raises:
        InputError: there is no matrix.
    """
    if not matrices:
        raise InputError("there is no matrix to draw; only factors give matrices")
    widest = max(matrix.nmi.shape[1] for matrix in matrices)
    heights = [max(1.4, 0.35 * len(matrix.factors) + 0.9) for matrix in matrices]
    width = min(20.0, max(5.0, 2.5 + 0.5 * widest))
    figure = new_figure(width, sum(heights))
    ratios = {"height_ratios": heights}
    panels = figure.subplots(len(matrices), 1, squeeze=False, gridspec_kw=ratios)[:, 0]
    are_several = len({(matrix.source, matrix.view) for matrix in matrices}) > 1
    for panel, matrix in zip(panels, matrices, strict=True):
        _draw_matrix(panel, matrix)
        whole = f"{matrix.source}::{matrix.view} · {matrix.condition}"
        title = cut_middle(whole, LETTERS_AN_INCH * int(width)) if are_several else matrix.condition
        panel.set_title(for_figure(title), fontsize="medium")
    panels[-1].set_xlabel("latent")
    label = "mutual information / factor entropy"
    figure.colorbar(panels[0].images[0], ax=list(panels), label=label)
    return figure


def _draw_matrix(panel: "Axes", matrix: InformationMatrix) -> None:
    # Estimates pass 1 by a hair; the scale is the same everywhere so that panels compare.
    panel.imshow(matrix.nmi, vmin=0, vmax=1, cmap="viridis", aspect="auto")
    panel.set_yticks(range(len(matrix.factors)), list(map(for_figure, matrix.factors)))
    latents = range(matrix.nmi.shape[1]) if matrix.nmi.shape[1] <= MOST_NAMED else ()
    names = [
        for_figure(matrix.latents[j]) + ("\npruned" if j in matrix.pruned else "") for j in latents
    ]
    panel.set_xticks(latents, names, fontsize=8)
    if matrix.nmi.size <= MOST_NUMBERED:
        for (i, j), value in np.ndenumerate(matrix.nmi):
            colour = "black" if value > 0.6 else "white"
            panel.text(j, i, f"{value:.2f}", ha="center", va="center", fontsize=7, color=colour)
