"""The demo's table: the layout of ``compare``, with the paper's row under each of ours."""

from collections.abc import Mapping
from dataclasses import replace

from repalign.experiments.table_one import PairOutcome, TableOne
from repalign.workflows.tables.errors import (
    ErrorBlock,
    ErrorColumn,
    ErrorLine,
    ErrorTable,
    error_table,
    short_number,
    short_percent,
)


def table_of(table_one: TableOne) -> ErrorTable:
    """Return the table of all pairs, the paper's numbers in a line of their own."""
    columns = error_table(table_one.result().to_records()).columns
    blocks = [
        _with_paper(error_table(outcome.result.to_records()).blocks[0], outcome, columns)
        for outcome in table_one.outcomes
    ]
    return ErrorTable(columns, tuple(blocks))


def _with_paper(
    block: ErrorBlock, outcome: PairOutcome, columns: tuple[ErrorColumn, ...]
) -> ErrorBlock:
    first = outcome.result.records[0]
    widths = dict.fromkeys((first.source_dim, first.target_dim))
    size = f"{first.n_rows} × {' → '.join(str(width) for width in widths)}"
    if outcome.paper is None:
        return replace(block, title=f"{outcome.pair.title}; {size}")
    cells = tuple(_paper_cell(column, outcome.paper) for column in columns)
    line = ErrorLine("paper", cells, is_error=False)
    title = f"{outcome.pair.title} (paper: {outcome.pair.paper_row}); {size}"
    return replace(block, title=title, lines=(*block.lines, line))


def _paper_cell(column: ErrorColumn, paper: Mapping[str, float]) -> str:
    if column.is_efficiency:
        return short_percent(paper["efficiency"]) if column.map == "ica" else ""
    return short_number(paper[column.map]) if column.map in paper else ""
