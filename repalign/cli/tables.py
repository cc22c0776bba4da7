"""What commands show: the same result as records, as a document, as tables, on a terminal."""

import io
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from repalign.printable import printable
from repalign.workflows.tables.layout import (
    Layout,
    Record,
    column_names,
    records_layout,
    text_cells,
)

if TYPE_CHECKING:
    from repalign.experiments.table_one import TableOne
    from repalign.workflows.compare.results import CompareResult
    from repalign.workflows.disentangle.results import DisentangleResult
    from repalign.workflows.tables.disentangle import Grid
    from repalign.workflows.tables.errors import ErrorTable

STYLES = {"heading": "bold", "title": "bold cyan", "error": "", "detail": "dim", "caption": "dim"}
WIDTH_OFF_TERMINAL = 120
# Wide enough for a table of records in a file.
WIDTH_OF_RECORDS = 200


@dataclass(frozen=True)
class Shown:
    """One result in all the shapes that a format may want; each is made when it is asked for.

    Attributes:
        records: Tidy, one a row.
        document: Complete, ready for JSON.
        drawing: For a terminal.
        layouts: For Markdown.
        paper_layouts: For LaTeX.
    """

    records: Callable[[], Sequence[Record]]
    document: Callable[[], Any]
    drawing: Callable[[], RenderableType]
    layouts: Callable[[], Sequence[Layout]]
    paper_layouts: Callable[[], Sequence[Layout]]


def shown_records(records: Sequence[Record], document: Any = None) -> Shown:
    """Show records; the document is the records too, unless there is a fuller one."""
    return Shown(
        records=lambda: records,
        document=lambda: [dict(record) for record in records] if document is None else document,
        drawing=lambda: _drawn_records(records),
        layouts=lambda: [records_layout(records)],
        paper_layouts=lambda: [records_layout(records)],
    )


def shown_comparison(result: "CompareResult") -> Shown:
    """Show the error table of a comparison."""
    return _shown_errors(result, result.to_dict, result.error_table)


def shown_table_one(table_one: "TableOne") -> Shown:
    """Show the table of the demo, with the paper's numbers."""
    from repalign.experiments.table_one_table import table_of

    return _shown_errors(
        table_one, lambda: table_one.result().to_dict(), lambda: table_of(table_one)
    )


def shown_disentanglement(result: "DisentangleResult") -> Shown:
    """Show the tables of a disentanglement, or of a study of batches."""
    from repalign.workflows.tables import disentangle as tables

    return Shown(
        records=result.to_records,
        document=result.to_dict,
        drawing=lambda: _drawn_grids(tables.tables_of(result)),
        layouts=lambda: [grid.layout() for grid in tables.tables_of(result)],
        paper_layouts=lambda: [grid.layout() for grid in tables.paper_tables(result)],
    )


def _shown_errors(
    result: "CompareResult | TableOne",
    document: Callable[[], Any],
    table: "Callable[[], ErrorTable]",
) -> Shown:
    return Shown(
        records=result.to_records,
        document=document,
        drawing=lambda: _drawn_errors(table()),
        layouts=lambda: [table().layout()],
        paper_layouts=lambda: [table().layout()],
    )


def drawn(renderable: RenderableType) -> str:
    """Return a rich renderable as text: with colours for a terminal, plain elsewhere."""
    terminal = sys.stdout.isatty()
    console = Console(
        file=_Sheet(),
        force_terminal=terminal,
        width=None if terminal else WIDTH_OF_RECORDS,
        highlight=False,
    )
    with console.capture() as capture:
        console.print(renderable)
    return capture.get()


class _Sheet(io.StringIO):
    """Tells rich which letters stdout knows: without this, rules would be none on ASCII."""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return sys.stdout.encoding or "utf-8"


def terminal_width() -> int:
    """Return the columns of the terminal, or a width that suits a file."""
    return shutil.get_terminal_size((WIDTH_OFF_TERMINAL, 0)).columns


def _drawn_records(records: Sequence[Record]) -> Table:
    names = column_names(records)
    table = Table(title_justify="left", header_style="bold")
    for name in names:
        table.add_column(_text(name), overflow="fold")
    for record in records:
        table.add_row(*(_text(cell) for cell in text_cells(record, names)))
    return table


def _drawn_errors(table: "ErrorTable") -> Text:
    from repalign.workflows.tables.text import text_lines

    lines = text_lines(table, terminal_width())
    return Text("\n").join([Text(text, style=STYLES[emphasis]) for text, emphasis in lines])


def _drawn_grids(grids: "Sequence[Grid]") -> Group:
    parts: list[RenderableType] = []
    for grid in grids:
        notes = [Text(printable(note), style="dim") for note in grid.notes]
        parts += [_drawn_grid(grid), *notes, Text("")]
    return Group(*parts[:-1])


def _drawn_grid(grid: "Grid") -> Table:
    table = Table(title=_text(grid.title), title_justify="left", header_style="bold")
    table.add_column("")
    for name in grid.columns:
        table.add_column(_text(name), justify="right", overflow="fold")
    for row in grid.rows:
        style = "dim" if row.is_detail and any(row.cells) else ("bold" if row.is_detail else "")
        table.add_row(_text(row.label), *(_text(cell) for cell in row.cells), style=style)
    return table


def _text(text: str) -> Text:
    """Return text as it is: what looks like markup of rich, as 'repalign[plot]' does, is none."""
    return Text(printable(text))
