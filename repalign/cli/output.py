"""Where a result goes and in which format: stdout or a file, by what was asked for."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from repalign.cli.formats import DRAWN_MATRIX, MATRIX, SUFFIXES, render
from repalign.cli.tables import Shown, shown_records
from repalign.cli.talk import Talk
from repalign.exceptions import InputError
from repalign.files import STDOUT, check_output, writing
from repalign.workflows.tables.layout import Record

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def choose_format(asked: str | None, output: Path | None) -> str:
    """Return the format asked for, else by the ending of the file, else by the kind of stdout.

    Raises:
        InputError: The output cannot be written, or its ending belongs to no format.
    """
    if output is not None:
        check_output(output)  # before the work rather than after it
    if asked == MATRIX and (
        sys.stdout.isatty() if output in (None, STDOUT) else output.suffix.lower() == ".txt"
    ):
        return DRAWN_MATRIX
    if asked is not None:
        return asked
    if output is not None and output != STDOUT:
        try:
            return SUFFIXES[output.suffix.lower()]
        except KeyError:
            raise InputError(
                f"--output {output}: no format belongs to the ending '{output.suffix}'; expected "
                f"one of {', '.join(SUFFIXES)}, or give --format"
            ) from None
    return "table" if sys.stdout.isatty() else "csv"


def show(shown: Shown, form: str | None, to: Path | None, talk: Talk) -> None:
    """Write a result in the format that belongs there, and tell the file."""
    emit(render(shown, choose_format(form, to)), to, talk)


def emit(text: str, output: Path | None = None, talk: Talk | None = None) -> None:
    """Write text to stdout, or to a file that appears only when it is whole and is then told."""
    text = text if text.endswith("\n") else text + "\n"
    if output is None or output == STDOUT:
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    with writing(output) as whole:
        # what cannot be encoded is shown by its number, as on stdout
        whole.write_text(text, encoding="utf-8", errors="backslashreplace")
    _tell(output, talk)


def check_figure(path: Path) -> None:
    """Check, before anything is computed, that a figure can be written there.

    Raises:
        InputError: No figure can be written with that ending, or there.
        MissingExtraError: matplotlib is not installed.
    """
    from repalign.workflows.figures.drawing import new_figure

    check_output(path)
    _check_kind(new_figure(), path)


def save_figure(figure: "Figure", path: Path, talk: Talk | None = None) -> None:
    """Write a figure in the format that the ending of the file says, and tell it.

    Raises:
        InputError: No figure can be written with that ending.
    """
    from repalign.workflows.figures.drawing import written

    _check_kind(figure, path)
    written(figure, path)
    _tell(path, talk)


def _check_kind(figure: "Figure", path: Path) -> None:
    from repalign.workflows.figures.drawing import figure_kind

    try:
        figure_kind(figure, path)
    except InputError as failure:
        raise InputError(f"--plot {failure}") from None


def _tell(path: Path, talk: Talk | None) -> None:
    if talk is not None and path != STDOUT:
        talk.note(f"wrote {path}")


def render_records(records: Sequence[Record], form: str) -> str:
    """Return records in one of the formats."""
    return render(shown_records(records), form)
