"""The demo's table: the layout of ``compare``, with the paper's row under each of ours."""

from collections.abc import Mapping, Sequence

from repalign.experiments.table_one import PairOutcome, TableOne
from repalign.tables.errors import (
    ErrorColumn,
    error_columns,
    error_lines,
    errors_as_table,
)
from repalign.tables.table import Line, Table, short_number, short_percent


def table_of(table_one: TableOne) -> Table:
    """Return the table of all pairs, the paper's numbers in a line of their own."""
    columns = error_columns(table_one.result().to_records())
    lines = [line for outcome in table_one.outcomes for line in _lines(outcome, columns)]
    return errors_as_table(columns, lines)


def _lines(outcome: PairOutcome, columns: Sequence[ErrorColumn]) -> list[Line]:
    first, paper = outcome.result.records[0], outcome.paper
    widths = dict.fromkeys((first.source_dim, first.target_dim))
    size = f"{first.n_rows} × {' → '.join(str(width) for width in widths)}"
    row = "" if paper is None else f" (paper: {outcome.pair.paper_row})"
    lines = [Line(f"{outcome.pair.title}{row}; {size}")]
    lines += error_lines(outcome.result.to_records(), columns)
    if paper is not None:
        cells = tuple(_paper_cell(column, paper) for column in columns)
        lines.append(Line("paper", cells, is_detail=True))
    return lines


def _paper_cell(column: ErrorColumn, paper: Mapping[str, float]) -> str:
    if column.is_efficiency:
        return short_percent(paper["efficiency"]) if column.map == "ica" else ""
    return short_number(paper[column.map]) if column.map in paper else ""
