"""What commands show: the same result as records, as a document, as tables, on a terminal."""

import io
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.console import Console, RenderableType
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
    from repalign.experiments.reproduce.results import Reproduction
    from repalign.experiments.table_one import TableOne
    from repalign.workflows.compare.results import CompareResult
    from repalign.workflows.deconfound.results import DeconfoundResult
    from repalign.workflows.disentangle.results import DisentangleResult
    from repalign.workflows.tables.errors import ErrorTable
    from repalign.workflows.tables.grid import Grid
    from repalign.workflows.tables.matrix import Matrix

STYLES = {
    "heading": "bold",
    "title": "bold cyan",
    "error": "",
    "detail": "dim",
    "caption": "dim",
    "value": "",
}
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
        matrix: One number of each pair of views, where there are pairs.
        warnings: They stand below the tables.
    """

    records: Callable[[], Sequence[Record]]
    document: Callable[[], Any]
    drawing: Callable[[], RenderableType]
    layouts: Callable[[], Sequence[Layout]]
    paper_layouts: Callable[[], Sequence[Layout]]
    matrix: "Callable[[], Matrix] | None" = None
    warnings: Callable[[], Sequence[str]] = tuple


def shown_records(records: Sequence[Record], document: Any = None) -> Shown:
    """Show records; the document is the records too, unless there is a fuller one."""
    return Shown(
        records=lambda: records,
        document=lambda: [dict(record) for record in records] if document is None else document,
        drawing=lambda: _drawn_records(records),
        layouts=lambda: [records_layout(records)],
        paper_layouts=lambda: [records_layout(records)],
    )


def shown_comparison(result: "CompareResult", show: str | None = None) -> Shown:
    """Show the error table of a comparison and its measures; ``show`` is what a matrix holds."""
    shown = _shown_errors(result, result.to_dict, result.error_table)
    shown = replace(shown, matrix=lambda: result.matrix(show), warnings=result.shown_warnings)
    if result.is_study:
        return replace(
            shown,
            drawing=lambda: drawn_grids(list(result.matrix(show).grids())),
            layouts=lambda: result.matrix(show).layouts(),
            paper_layouts=lambda: result.matrix(show).layouts(),
        )
    if not result.measures:
        return shown
    measured = result.measures_grid()
    drawn = ([_drawn_errors(result.error_table())] if result.records else []) + [
        drawn_grids([measured])
    ]
    return replace(
        shown,
        drawing=lambda: Text("\n\n").join(drawn),
        layouts=result.layouts,
        paper_layouts=result.paper_layouts,
    )


def shown_matches(result: "CompareResult", show: str | None = None) -> Shown:
    """Show the best matches of layers: all of them as records, by one quantity as a table."""
    from repalign.workflows.tables.matches import matches_grid

    shown = shown_records([match.to_dict() for match in result.matches])
    return replace(
        shown,
        drawing=lambda: drawn_grids([matches_grid(result, show)]),
        layouts=lambda: [matches_grid(result, show).layout()],
        paper_layouts=lambda: [matches_grid(result, show).layout()],
    )


def shown_table_one(table_one: "TableOne") -> Shown:
    """Show the table of the demo, with the paper's numbers."""
    from repalign.experiments.table_one_table import table_of

    return _shown_errors(
        table_one, lambda: table_one.result().to_dict(), lambda: table_of(table_one)
    )


def shown_scores(result: "DisentangleResult") -> Shown:
    """Show the scores of latents against factors; LaTeX has the layout of the paper's Table 2."""
    from repalign.workflows.tables.disentangle import score_tables

    return _shown_grids(result, score_tables(result))


def shown_batches(result: "DeconfoundResult") -> Shown:
    """Show how well labels are told on held-out batches."""
    from repalign.workflows.tables.deconfound import batch_tables

    return _shown_grids(result, batch_tables(result))


def shown_reproduction(result: "Reproduction") -> Shown:
    """Show the means over seeds of an experiment, the published values beside them."""
    from repalign.experiments.reproduce.table import table_of

    grid = table_of(result)
    return Shown(
        records=lambda: [each.to_record() for each in result.summaries()],
        document=result.to_dict,
        drawing=lambda: drawn_grids([grid]),
        layouts=lambda: [grid.layout()],
        paper_layouts=lambda: [grid.layout()],
    )


def _shown_grids(
    result: "DisentangleResult | DeconfoundResult",
    grids: "Sequence[Grid]",
) -> Shown:
    return Shown(
        records=result.to_records,
        document=result.to_dict,
        drawing=lambda: drawn_grids(grids),
        layouts=result.layouts,
        paper_layouts=result.paper_layouts,
        warnings=result.shown_warnings,
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


def _drawn_records(records: Sequence[Record]) -> Table:
    """Draw a column a field; of one record that is too wide for it, a line a field."""
    names = column_names(records)
    lines = [text_cells(record, names) for record in records]
    if len(records) == 1 and _width([names, *lines]) > _room():
        lines = [list(each) for each in zip(names, lines[0], strict=True)]
        names = ["field", "value"]
    table = Table(title_justify="left", header_style="bold")
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


def _drawn_errors(table: "ErrorTable") -> Text:
    from repalign.workflows.tables.text import text_lines

    lines = text_lines(table, terminal_width())
    return Text("\n").join([Text(text, style=STYLES[emphasis]) for text, emphasis in lines])


def drawn_grids(grids: "Sequence[Grid]") -> Text:
    """Draw tables one below another, within the width of the terminal."""
    from repalign.workflows.tables.grid import WIDTH, text_lines

    width = shutil.get_terminal_size((WIDTH, 0)).columns
    lines: list[Text] = []
    for grid in grids:
        lines += [Text("")] if lines else []
        for text, emphasis in text_lines(grid, width):
            lines.append(Text(printable(text), style=STYLES[emphasis]))
    return Text("\n").join(lines)


def _text(text: str) -> Text:
    """Return text as it is: what looks like markup of rich, as 'repalign[plot]' does, is none."""
    return Text(printable(text))
