"""Where a result goes and in which format: stdout or a file, by what was asked for."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from repalign.cli.formats import FORMATS, MATRICES, MATRIX, SUFFIXES, render
from repalign.cli.talk import Talk
from repalign.exceptions import InputError
from repalign.files import STDOUT, check_output, writing
from repalign.tables.formats import Shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The ending of any text, whatever its format.
TEXT = ".txt"


def choose_format(asked: str | None, output: Path | None) -> str:
    """Return the format asked for, else by the ending of the file, else by the kind of stdout.

    A matrix is written as the ending of the file says, and drawn on a terminal.

    Raises:
        InputError: The output cannot be written, or its ending belongs to no format.
        BadParameter: The ending belongs to another format than the one asked for.
    """
    if output is not None:
        check_output(output)  # before the work rather than after it
    if output is None or output == STDOUT:
        if asked == MATRIX and sys.stdout.isatty():
            return MATRICES[TEXT]
        return asked or ("table" if sys.stdout.isatty() else "csv")
    ending = output.suffix.lower()
    if asked == MATRIX:
        asked = MATRICES.get(ending, asked)
    if asked is None:
        try:
            return SUFFIXES[ending]
        except KeyError:
            raise InputError(
                f"--output {output}: no format belongs to the ending '{output.suffix}'; expected "
                f"one of {', '.join(SUFFIXES)}, or give --format"
            ) from None
    if ending in SUFFIXES and ending not in (TEXT, FORMATS[asked].suffix):
        raise typer.BadParameter(
            f"--format {asked}: contradicts --output {output}, whose ending is of "
            f"{SUFFIXES[ending]}; use one of the two"
        )
    return asked


def is_terminal(output: Path | None) -> bool:
    """Return whether a result that goes there is read on a terminal."""
    return output in (None, STDOUT) and sys.stdout.isatty()


def show(shown: Shown, form: str | None, to: Path | None = None, talk: Talk | None = None) -> None:
    """Write a result in the format that belongs there, and tell the file."""
    chosen = choose_format(form, to)
    emit(render(shown, chosen, on_terminal=is_terminal(to)), to, talk)


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
    """
    from repalign.figures.style import new_figure

    check_output(path)
    _check_kind(new_figure(), path)


def save_figure(figure: "Figure", path: Path, talk: Talk | None = None) -> None:
    """Write a figure in the format that the ending of the file says, and tell it.

    Raises:
        InputError: No figure can be written with that ending.
    """
    from repalign.figures.style import write_figure

    _check_kind(figure, path)
    write_figure(figure, path)
    _tell(path, talk)


def _check_kind(figure: "Figure", path: Path) -> None:
    from repalign.figures.style import figure_format

    try:
        figure_format(figure, path)
    except InputError as failure:
        raise InputError(f"--plot {failure}") from None


def _tell(path: Path, talk: Talk | None) -> None:
    if talk is not None and path != STDOUT:
        talk.note(f"wrote {path}")
