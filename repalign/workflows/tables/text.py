"""The error table as plain text of a given width."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from textwrap import wrap
from typing import Literal

from repalign.printable import printable
from repalign.workflows.tables.errors import GAP, ErrorBlock, ErrorTable

Emphasis = Literal["heading", "title", "error", "detail", "caption"]


def text_lines(table: ErrorTable, width: int = 100) -> Iterator[tuple[str, Emphasis]]:
    """Yield the lines of the table with what each is; columns that do not fit come below."""
    table = _printable(table)
    labels = max((len(line.label) for block in table.blocks for line in block.lines), default=0)
    for columns in _fitting_columns(table, labels, width):
        part = _only(table, columns)
        widths = _widths(part)
        over = _over_heading(part, widths)
        if over:
            yield " " * labels + over, "heading"
        headings = [column.heading for column in part.columns]
        yield _joined(" " * labels, headings, widths), "heading"
        for block in part.blocks:
            yield "", "detail"
            yield block.title, "title"
            for line in block.lines:
                emphasis: Emphasis = "error" if line.is_error else "detail"
                yield _joined(line.label.ljust(labels), line.cells, widths), emphasis
        yield "", "detail"
    for block in table.blocks:
        if block.notes and len(table.blocks) > 1:
            yield block.title, "title"
        for text in block.notes:
            yield from ((part, "detail") for part in wrap(text, width, subsequent_indent="  "))
        if block.notes:
            yield "", "detail"
    for text in table.caption:
        yield text, "caption"


def as_text(table: ErrorTable, width: int = 100) -> str:
    """Return the table as text of at most this width, where a single column fits."""
    return "\n".join(text for text, _ in text_lines(table, width)) + "\n"


def _printable(table: ErrorTable) -> ErrorTable:
    """Return the table with what comes from files made printable; numbers are."""
    blocks = [
        replace(
            block,
            title=printable(block.title),
            notes=tuple(printable(note) for note in block.notes),
            lines=tuple(replace(line, label=printable(line.label)) for line in block.lines),
        )
        for block in table.blocks
    ]
    return replace(table, blocks=tuple(blocks))


def _fitting_columns(table: ErrorTable, labels: int, width: int) -> list[list[int]]:
    """Cut the columns into runs that fit the width, at least one column each."""
    runs: list[list[int]] = []
    left = 0
    for number, needed in enumerate(_widths(table)):
        taken = needed + len(GAP)
        if not runs or taken > left:
            runs.append([])
            left = width - labels
        runs[-1].append(number)
        left -= taken
    return runs


def _only(table: ErrorTable, columns: Sequence[int]) -> ErrorTable:
    def cut(block: ErrorBlock) -> ErrorBlock:
        lines = [replace(line, cells=tuple(line.cells[i] for i in columns)) for line in block.lines]
        return replace(block, lines=tuple(lines))

    chosen = tuple(table.columns[i] for i in columns)
    return replace(table, columns=chosen, blocks=tuple(cut(block) for block in table.blocks))


def _widths(table: ErrorTable) -> list[int]:
    return [
        max(
            len(column.heading),
            *(len(line.cells[i]) for block in table.blocks for line in block.lines),
        )
        for i, column in enumerate(table.columns)
    ]


def _over_heading(table: ErrorTable, widths: Sequence[int]) -> str:
    """Return the line that spans the supervised columns, empty where there are fewer than two."""
    flags = [column.is_supervised for column in table.columns]
    if sum(flags) < 2:
        return ""
    first, last = flags.index(True), len(flags) - 1 - flags[::-1].index(True)
    before = sum(len(GAP) + width for width in widths[:first])
    span = sum(len(GAP) + width for width in widths[first : last + 1]) - len(GAP)
    return " " * (before + len(GAP)) + " supervised ".center(span, "─")


def _joined(label: str, cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [cell.rjust(width) for cell, width in zip(cells, widths, strict=True)]
    return GAP.join([label, *padded]).rstrip()
