"""What commands show: the same result as records, as a document, as tables, on a terminal."""

import io
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from repalign.printable import printable
from repalign.tables.formats import Shown, shown_records
from repalign.tables.render import text_lines
from repalign.tables.table import WIDTH, Table

if TYPE_CHECKING:
    from repalign.comparison.results import CompareResult
    from repalign.experiments.reproduce.results import Reproduction
    from repalign.experiments.table_one import TableOne

STYLES = {"heading": "bold", "title": "bold cyan", "value": "", "detail": "dim"}
# Off a terminal, of tables that are wider than others.
WIDTH_OFF_TERMINAL = 120
# Wide enough for a table of records in a file.
WIDTH_OF_RECORDS = 200


def shown_matches(result: "CompareResult", show: str | None = None) -> Shown:
    """Show the best matches of layers: all of them as records, by one quantity as a table."""
    from repalign.tables.matches import matches_table

    shown = shown_records([match.to_dict() for match in result.matches])
    return replace(shown, tables=lambda: [matches_table(result, show)])


def shown_table_one(table_one: "TableOne") -> Shown:
    """Show the table of the demo, with the paper's numbers."""
    from repalign.experiments.table_one_table import table_of

    return Shown(
        records=table_one.to_records,
        document=lambda: table_one.result().to_dict(),
        tables=lambda: [table_of(table_one)],
    )


def shown_reproduction(result: "Reproduction") -> Shown:
    """Show the means over seeds of an experiment, the published values next to them."""
    from repalign.experiments.reproduce.table import table_of

    return Shown(
        records=lambda: [summary.to_record() for summary in result.summaries()],
        document=result.to_dict,
        tables=lambda: [table_of(result)],
    )


def drawn(tables: Sequence[Table], *, on_terminal: bool) -> str:
    """Return tables as rich draws them: with colours for a terminal, plain elsewhere."""
    drawings = [_drawn_words(table) if table.is_text else _drawn_lines(table) for table in tables]
    console = Console(
        file=_Sheet(),
        force_terminal=on_terminal,
        width=None if on_terminal else WIDTH_OF_RECORDS,
        highlight=False,
    )
    with console.capture() as capture:
        for place, drawing in enumerate(drawings):
            console.print(*([""] if place else []), drawing, sep="\n")
    return capture.get()


class _Sheet(io.StringIO):
    """Tells rich which letters stdout knows: without this, rules would be none on ASCII."""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return sys.stdout.encoding or "utf-8"


def terminal_width() -> int:
    """Return the columns of the terminal, or a width that suits a file."""
    return shutil.get_terminal_size((WIDTH_OFF_TERMINAL, 0)).columns


def _drawn_words(table: Table) -> RichTable:
    """Draw a column a field; of one record that is too wide for it, a line a field."""
    names = [table.corner, *table.columns]
    lines = [[line.label, *line.cells] for line in table.lines]
    if len(lines) == 1 and _width([names, *lines]) > _room():
        lines = [list(field) for field in zip(names, lines[0], strict=True)]
        names = ["field", "value"]
    drawing = RichTable(title_justify="left", header_style="bold")
    for name in names:
        drawing.add_column(_text(name), overflow="fold")
    for line in lines:
        drawing.add_row(*map(_text, line))
    return drawing


def _width(lines: Sequence[Sequence[str]]) -> int:
    """Return how wide a table is whose cells are not broken: two blanks and a rule a column."""
    return 1 + sum(3 + max(map(cell_len, column)) for column in zip(*lines, strict=True))


def _room() -> int:
    return terminal_width() if sys.stdout.isatty() else WIDTH_OF_RECORDS


def _drawn_lines(table: Table) -> Text:
    """Draw a table within the width of the terminal."""
    usual = WIDTH_OFF_TERMINAL if table.width > WIDTH else WIDTH
    width = shutil.get_terminal_size((usual, 0)).columns
    return Text("\n").join(
        Text(text, style=STYLES[emphasis]) for text, emphasis in text_lines(table, width)
    )


def _text(text: str) -> Text:
    """Return text as it is: what looks like markup of rich, as 'repalign[plot]' does, is none."""
    return Text(printable(text))
