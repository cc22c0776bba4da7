"""A table before it is written in a language: cells, titles, what spans what. No markup yet."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Line:
    """One line: its labels, then its cells.

    Attributes:
        cells: One a column, labels included.
        is_heading: It names the lines below and has no cells of its own.
        starts_block: A rule parts it from what is above.
    """

    cells: tuple[str, ...]
    is_heading: bool = False
    starts_block: bool = False


@dataclass(frozen=True)
class Layout:
    """One table.

    Attributes:
        columns: Headings, those of the labels included.
        lines: What stands below them.
        n_labels: Columns of text on the left; the others hold numbers.
        title: Stands above.
        over: First and last column of a span with its heading.
        notes: Stand below, each for itself.
        caption: What the table shows.
    """

    columns: tuple[str, ...]
    lines: tuple[Line, ...]
    n_labels: int = 1
    title: str = ""
    over: tuple[int, int, str] | None = None
    notes: tuple[str, ...] = ()
    caption: tuple[str, ...] = ()


def records_layout(records: Sequence[Record]) -> Layout:
    """Return records as a table, one a line."""
    names = column_names(records)
    return Layout(
        columns=tuple(names),
        lines=tuple(Line(tuple(text_cells(record, names))) for record in records),
        n_labels=len(names),
    )


def side_name(record: Record, side: str) -> str:
    """Return the name of the source or the target of a record, with its view if it has one."""
    view = record.get(f"{side}_view")
    return f"{record[side]}::{view}" if view else str(record[side])


def column_names(records: Sequence[Record]) -> list[str]:
    """Return the names of all records in order of first appearance."""
    return list(dict.fromkeys(name for record in records for name in record))


def text_cells(record: Record, names: Sequence[str]) -> list[str]:
    """Return the cells of one record for people: four significant digits, empty if undefined."""
    return [_text_cell(plain_value(record.get(name))) for name in names]


def _text_cell(value: Any) -> str:
    return without_minus(f"{value:.4g}") if isinstance(value, float) else str(value)


# From here on a number is written with its power of ten: its digits would fill the line.
LARGE = 1e6


def decimals(value: float, digits: int) -> str:
    """Return a number with so many decimals, a very large one with its power of ten."""
    return f"{value:.1e}" if abs(value) >= LARGE else without_minus(f"{value:.{digits}f}")


def without_minus(number: str) -> str:
    """Return a number as it is written, but for the minus of one that is nothing."""
    return number if number.strip("-0.") else number.removeprefix("-")


def plain_value(value: Any) -> Any:
    """Return a value as tables show it: empty where undefined, truth in lower case."""
    if value is None or (isinstance(value, float) and value != value):
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value
