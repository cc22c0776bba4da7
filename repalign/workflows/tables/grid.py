"""Tables of labelled rows, and their plain text."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from textwrap import wrap
from typing import Any, Literal

from repalign.printable import printable
from repalign.workflows.tables.layout import Layout, Line, decimals

UNDEFINED = "n/a"
GAP = "  "
WIDTH = 80

Emphasis = Literal["title", "heading", "value", "detail"]


@dataclass(frozen=True)
class GridRow:
    """A label and one cell for each column; without any cell it is a heading of rows below."""

    label: str
    cells: tuple[str, ...]
    is_detail: bool = False

    @property
    def is_heading(self) -> bool:
        """Whether it has no cells of its own."""
        return not any(self.cells)


@dataclass(frozen=True)
class Grid:
    """One table: title, columns, rows, and the notes below."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[GridRow, ...]
    notes: tuple[str, ...] = ()

    def layout(self) -> Layout:
        """Return the table as Markdown and LaTeX write it."""
        blank = ("",) * len(self.columns)
        return Layout(
            columns=("", *self.columns),
            lines=tuple(
                Line((row.label, *(row.cells or blank)), is_heading=row.is_heading)
                for row in self.rows
            ),
            title=self.title,
            notes=self.notes,
        )


def text_lines(grid: Grid, width: int = WIDTH) -> Iterator[tuple[str, Emphasis]]:
    """Yield the lines of a table with what each is; columns that do not fit come below."""
    for line in _wrapped(grid.title, width):
        yield line, "title"
    labels = max((len(row.label) for row in grid.rows if not row.is_heading), default=0)
    for part in _fitting(grid, labels, width):
        widths = _widths(part)
        headings = [wrap(name, size) for name, size in zip(part.columns, widths, strict=True)]
        n_lines = max((len(lines) for lines in headings), default=0)
        for number in range(n_lines):
            cells = [([""] * (n_lines - len(lines)) + lines)[number] for lines in headings]
            yield _joined("", labels, cells, widths), "heading"
        for row in part.rows:
            if row.is_heading:
                yield from ((line, "heading") for line in _wrapped(row.label, width))
            else:
                line = _joined(row.label, labels, row.cells, widths)
                yield line, "detail" if row.is_detail else "value"
        yield "", "detail"
    for note in grid.notes:
        yield from ((line, "detail") for line in _wrapped(note, width))


def as_text(grids: Sequence[Grid], width: int = WIDTH) -> str:
    """Return tables as text of at most this width, where a single column fits."""
    return "\n".join(
        "".join(f"{printable(line)}\n" for line, _ in text_lines(grid, width)) for grid in grids
    )


def number(value: float | None) -> str:
    """Return a score as tables show it: three digits, no leading zero."""
    if value is None:
        return UNDEFINED
    text = decimals(value, 3)
    is_fraction = text.startswith(("0.", "-0."))
    return text.replace("0.", ".", 1) if is_fraction else decimals(value, 2)


def interval(low: float | None, high: float | None) -> str:
    """Return the two ends of an interval."""
    return UNDEFINED if low is None or high is None else f"{number(low)}–{number(high)}"


def distinct(values: Iterable[Any]) -> list[Any]:
    """Return values without repetitions, in order."""
    return list(dict.fromkeys(values))


def _wrapped(text: str, width: int) -> list[str]:
    """Cut a text into lines between words; a path stays whole, to be copied."""
    return wrap(
        text,
        width,
        subsequent_indent=GAP,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _fitting(grid: Grid, labels: int, width: int) -> Iterator[Grid]:
    """Cut the columns of a table into parts that fit, at least one column each."""
    start, used = 0, labels
    for place, size in enumerate(_widths(grid)):
        if place > start and used + len(GAP) + size > width:
            yield _part(grid, start, place)
            start, used = place, labels
        used += len(GAP) + size
    yield _part(grid, start, len(grid.columns))


def _part(grid: Grid, start: int, stop: int) -> Grid:
    rows = tuple(
        row if row.is_heading else replace(row, cells=row.cells[start:stop]) for row in grid.rows
    )
    return replace(grid, columns=grid.columns[start:stop], rows=rows)


def _widths(grid: Grid) -> list[int]:
    """Return how wide every column is: its widest cell, or the longest word of its heading."""
    return [
        max(
            [
                *(len(word) for word in name.split()),
                *(len(row.cells[place]) for row in grid.rows if not row.is_heading),
            ]
        )
        for place, name in enumerate(grid.columns)
    ]


def _joined(label: str, labels: int, cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [cell.rjust(size) for cell, size in zip(cells, widths, strict=True)]
    return GAP.join([label.ljust(labels), *padded]).rstrip()
