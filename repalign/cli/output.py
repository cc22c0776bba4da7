"""Where a result goes and in which format: stdout or a file, table, CSV, JSON, Markdown, LaTeX."""

import csv
import io
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from repalign.aliases import OutputFormat
from repalign.exceptions import InputError
from repalign.files import STDOUT, check_output, writing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Record = Mapping[str, Any]

FORMAT_OF_ENDING: dict[str, OutputFormat] = {
    ".csv": "csv",
    ".json": "json",
    ".md": "markdown",
    ".tex": "latex",
    ".txt": "table",
}
LATEX_ESCAPES = str.maketrans(
    {c: "\\" + c for c in "&%$#_{}"} | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}"}
)


def choose_format(asked: OutputFormat | None, output: Path | None) -> OutputFormat:
    """Return the format asked for, else by the ending of the file, else by the kind of stdout."""
    if output is not None:
        check_output(output)  # before the work rather than after it
    if asked is not None:
        return asked
    if output is not None and output != STDOUT:
        try:
            return FORMAT_OF_ENDING[output.suffix.lower()]
        except KeyError:
            raise InputError(
                f"--output {output}: no format belongs to the ending '{output.suffix}'; expected "
                f"one of {', '.join(FORMAT_OF_ENDING)}, or give --format"
            ) from None
    return "table" if sys.stdout.isatty() else "csv"


def emit(text: str, output: Path | None = None) -> None:
    """Write text to stdout, or to a file that appears only when it is whole."""
    text = text if text.endswith("\n") else text + "\n"
    if output is None or output == STDOUT:
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    with writing(output) as whole:
        whole.write_text(text, encoding="utf-8")


def check_figure(path: Path) -> None:
    """Check, before anything is computed, that a figure can be written there.

    Raises:
        InputError: No figure can be written with this ending, or there is no such folder.
        MissingExtraError: matplotlib is not installed.
    """
    from repalign.workflows.figures.drawing import new_figure

    _figure_kind(new_figure(), path)
    if not path.absolute().parent.is_dir():
        raise InputError(f"--plot {path}: there is no folder {path.parent}; make it first")


def save_figure(figure: "Figure", path: Path) -> None:
    """Write a figure in the format that the ending of the file says."""
    kind = _figure_kind(figure, path)
    with writing(path) as whole:
        figure.savefig(whole, dpi=150, format=kind)


def _figure_kind(figure: "Figure", path: Path) -> str:
    kind = path.suffix.lower().removeprefix(".")
    if kind not in figure.canvas.get_supported_filetypes():
        raise InputError(
            f"--plot {path}: no figure can be written with the ending '{path.suffix}'; expected "
            "for example .png, .pdf or .svg"
        )
    return kind


def draw(renderable: RenderableType, *, width: int | None = None) -> str:
    """Return a rich renderable as text: with colours for a terminal, plain elsewhere."""
    terminal = sys.stdout.isatty()
    console = Console(
        file=io.StringIO(),
        force_terminal=terminal,
        width=width or (None if terminal else 200),
        highlight=False,
    )
    with console.capture() as capture:
        console.print(renderable)
    return capture.get()


def records_as_csv(records: Sequence[Record]) -> str:
    """Return records as CSV; an undefined value is an empty cell."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, fieldnames=column_names(records), lineterminator="\n")
    writer.writeheader()
    for record in records:
        writer.writerow({name: csv_cell(value) for name, value in record.items()})
    return buffer.getvalue()


def as_json(value: Any) -> str:
    """Return a value as JSON that every parser reads: NaN and infinity become null."""
    return json.dumps(_finite(value), indent=2, ensure_ascii=False, allow_nan=False)


def records_as_markdown(records: Sequence[Record]) -> str:
    """Return records as a Markdown table."""
    names = column_names(records)
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    lines += ["| " + " | ".join(text_cells(record, names)) + " |" for record in records]
    return "\n".join(lines) + "\n"


def records_as_latex(records: Sequence[Record]) -> str:
    """Return records as a LaTeX tabular."""
    names = column_names(records)
    rows = [names] + [text_cells(record, names) for record in records]
    body = [" & ".join(cell.translate(LATEX_ESCAPES) for cell in row) + r" \\" for row in rows]
    head = [r"\begin{tabular}{" + "l" * len(names) + "}", r"\hline", body[0], r"\hline"]
    return "\n".join([*head, *body[1:], r"\hline", r"\end{tabular}"]) + "\n"


def records_as_table(records: Sequence[Record], *, title: str | None = None) -> str:
    """Return records as a table for a terminal."""
    names = column_names(records)
    table = Table(title=title, title_justify="left", header_style="bold")
    for name in names:
        table.add_column(name, overflow="fold")
    for record in records:
        # Text, because a cell such as 'repalign[plot]' is no markup
        table.add_row(*(Text(cell) for cell in text_cells(record, names)))
    return draw(table)


def render_records(records: Sequence[Record], form: OutputFormat) -> str:
    """Return records in any of the formats."""
    if form == "csv":
        return records_as_csv(records)
    if form == "json":
        return as_json([dict(record) for record in records])
    if form == "markdown":
        return records_as_markdown(records)
    if form == "latex":
        return records_as_latex(records)
    return records_as_table(records)


def column_names(records: Sequence[Record]) -> list[str]:
    """Return the names of all records in order of first appearance."""
    return list(dict.fromkeys(name for record in records for name in record))


def csv_cell(value: Any) -> Any:
    """Return a value as CSV shows it: full precision, empty where undefined, lower-case truth."""
    if value is None or (isinstance(value, float) and value != value):
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value


def text_cells(record: Record, names: Sequence[str]) -> list[str]:
    """Return the cells of one record for people: four significant digits, empty if undefined."""
    cells = []
    for name in names:
        value = csv_cell(record.get(name))
        cells.append(f"{value:.4g}" if isinstance(value, float) else str(value))
    return cells


def _finite(value: Any) -> Any:
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if hasattr(value, "item") and not hasattr(value, "__len__"):
        return _finite(value.item())
    return value
