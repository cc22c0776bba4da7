"""What commands show: the same result as records, as a document, as tables, on a terminal."""

import io
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from repalign.printable import printable
from repalign.workflows.tables.render import text_lines
from repalign.workflows.tables.table import (
    WIDTH,
    Record,
    Table,
    column_names,
    records_table,
    text_cells,
)

if TYPE_CHECKING:
    from repalign.experiments.reproduce.results import Reproduction
    from repalign.experiments.table_one import TableOne
    from repalign.workflows.compare.results import CompareResult
    from repalign.workflows.deconfound.results import DeconfoundResult
    from repalign.workflows.disentangle.results import DisentangleResult
    from repalign.workflows.tables.matrix import Matrix

STYLES = {"heading": "bold", "title": "bold cyan", "value": "", "detail": "dim"}
# Off a terminal, of tables that are wider than others.
WIDTH_OFF_TERMINAL = 120
# Wide enough for a table of records in a file.
WIDTH_OF_RECORDS = 200


@dataclass(frozen=True)
class Shown:
    """One result in all the shapes that a format may want; each is made when it is asked for.

    Attributes:
        records: Tidy, one a row.
        document: Complete, ready for JSON.
        tables: For people.
        paper_tables: For LaTeX, where these are others.
        drawing: For a terminal, where it is not the tables.
        matrix: One number of each pair of views, where there are pairs.
        warnings: They stand below the tables.
    """

    records: Callable[[], Sequence[Record]]
    document: Callable[[], Any]
    tables: Callable[[], Sequence[Table]]
    paper_tables: Callable[[], Sequence[Table]] | None = None
    drawing: Callable[[], RenderableType] | None = None
    matrix: "Callable[[], Matrix] | None" = None
    warnings: Callable[[], Sequence[str]] = tuple


def shown_records(records: Sequence[Record], document: Any = None) -> Shown:
    """Show records; the document is the records too, unless there is a fuller one."""
    return Shown(
        records=lambda: records,
        document=lambda: [dict(record) for record in records] if document is None else document,
        tables=lambda: [records_table(records)],
        drawing=lambda: _drawn_records(records),
    )


def shown_comparison(result: "CompareResult", show: str | None = None) -> Shown:
    """Show the error table of a comparison and its measures; ``show`` is what a matrix holds."""
    return Shown(
        records=result.to_records,
        document=result.to_dict,
        tables=lambda: list(result.matrix(show).tables()) if result.is_study else result.tables(),
        matrix=lambda: result.matrix(show),
        warnings=result.shown_warnings,
    )


def shown_matches(result: "CompareResult", show: str | None = None) -> Shown:
    """Show the best matches of layers: all of them as records, by one quantity as a table."""
    from repalign.workflows.tables.matches import matches_table

    shown = shown_records([match.to_dict() for match in result.matches])
    return replace(shown, tables=lambda: [matches_table(result, show)], drawing=None)


def shown_table_one(table_one: "TableOne") -> Shown:
    """Show the table of the demo, with the paper's numbers."""
    from repalign.experiments.table_one_table import table_of

    return Shown(
        records=table_one.to_records,
        document=lambda: table_one.result().to_dict(),
        tables=lambda: [table_of(table_one)],
    )


def shown_result(result: "DisentangleResult | DeconfoundResult") -> Shown:
    """Show scores, or how well labels are predicted on held-out batches."""
    return Shown(
        records=result.to_records,
        document=result.to_dict,
        tables=result.tables,
        paper_tables=result.paper_tables,
        warnings=result.shown_warnings,
    )


def shown_reproduction(result: "Reproduction") -> Shown:
    """Show the means over seeds of an experiment, the published values beside them."""
    from repalign.experiments.reproduce.table import table_of

    return Shown(
        records=lambda: [summary.to_record() for summary in result.summaries()],
        document=result.to_dict,
        tables=lambda: [table_of(result)],
    )


def drawn(renderable: RenderableType, *, on_terminal: bool) -> str:
    """Return a rich renderable as text: with colours for a terminal, plain elsewhere."""
    console = Console(
        file=_Sheet(),
        force_terminal=on_terminal,
        width=None if on_terminal else WIDTH_OF_RECORDS,
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


def _drawn_records(records: Sequence[Record]) -> RichTable:
    """Draw a column a field; of one record that is too wide for it, a line a field."""
    names = column_names(records)
    lines = [text_cells(record, names) for record in records]
    if len(records) == 1 and _width([names, *lines]) > _room():
        lines = [list(each) for each in zip(names, lines[0], strict=True)]
        names = ["field", "value"]
    table = RichTable(title_justify="left", header_style="bold")
    for name in names:
        table.add_column(_text(name), overflow="fold")
    for line in lines:
        table.add_row(*map(_text, line))
    return table


def _width(lines: Sequence[Sequence[str]]) -> int:
    """Return how wide a table is whose cells are not broken: two blanks and a rule a column."""
    return 1 + sum(3 + max(map(cell_len, column)) for column in zip(*lines, strict=True))


def _room() -> int:
    return terminal_width() if sys.stdout.isatty() else WIDTH_OF_RECORDS


def drawn_tables(tables: Sequence[Table]) -> Text:
    """Draw tables one below another, within the width of the terminal."""
    lines: list[Text] = []
    for table in tables:
        lines += [Text("")] if lines else []
        usual = WIDTH_OFF_TERMINAL if table.width > WIDTH else WIDTH
        width = shutil.get_terminal_size((usual, 0)).columns
        lines += [Text(text, style=STYLES[kind]) for text, kind in text_lines(table, width)]
    return Text("\n").join(lines)


def _text(text: str) -> Text:
    """Return text as it is: what looks like markup of rich, as 'repalign[plot]' does, is none."""
    return Text(printable(text))
