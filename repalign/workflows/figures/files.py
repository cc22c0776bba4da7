"""Figures as files, refused before anything is computed where they cannot be written."""

from pathlib import Path
from typing import TYPE_CHECKING

from repalign.exceptions import InputError
from repalign.workflows.figures.drawing import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def check_figure_path(path: Path) -> None:
    """Check that a figure can be written there.

    Raises:
        InputError: No picture has this suffix, or there is no such folder.
        MissingExtraError: matplotlib is not installed.
    """
    formats = new_figure().canvas.get_supported_filetypes()
    if path.suffix.lower().removeprefix(".") not in formats:
        some = ", ".join(f".{name}" for name in ("png", "pdf", "svg"))
        raise InputError(f"--plot {path}: no picture has the suffix {path.suffix!r}; try {some}")
    if not path.absolute().parent.is_dir():
        raise InputError(f"--plot {path}: there is no folder {path.parent}; make it first")


def save_figure(figure: "Figure", path: Path) -> None:
    """Write a figure."""
    figure.savefig(path, dpi=150)
