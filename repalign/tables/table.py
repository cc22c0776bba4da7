"""A table before it is written in a language, and how numbers and names stand in its cells."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

Record = Mapping[str, Any]

UNDEFINED = "n/a"
GAP = "  "
# Letters of a line where no terminal has another width.
WIDTH = 80
# From here on a number is written with its power of ten: its digits would fill the line.
LARGE = 1e6


@dataclass(frozen=True)
class Line:
    """One line of a table; without cells it is a heading of the lines below.

    Attributes:
        label: On the left.
        cells: One a column.
        is_detail: It belongs to a line above.
        starts_block: A rule parts it from what is above, in LaTeX.
        size: Of a heading: how much data the lines below are of.
        notes: Of a heading: what is to be known of the lines below.
    """

    label: str
    cells: tuple[str, ...] = ()
    is_detail: bool = False
    starts_block: bool = False
    size: str = ""
    notes: tuple[str, ...] = ()

    @property
    def is_heading(self) -> bool:
        """Whether it has no cells of its own."""
        return not self.cells


@dataclass(frozen=True)
class Table:
    """One table.

    Attributes:
        columns: Headings of the cells.
        lines: What stands below them.
        title: Stands above.
        notes: Stand below, each for itself.
        legend: What the cells mean.
        corner: Heading of the labels.
        supervised: Which columns a heading spans that says so; empty where there is none.
        has_blocks: Headings are titles of blocks, with their sizes and notes; headings of
            columns stay in one line. Otherwise headings are lines among others.
        is_text: Cells are words instead of numbers, and stand on the left.
        width: Letters of a line where no terminal has another width.
    """

    columns: tuple[str, ...]
    lines: tuple[Line, ...]
    title: str = ""
    notes: tuple[str, ...] = ()
    legend: tuple[str, ...] = ()
    corner: str = ""
    supervised: tuple[bool, ...] = ()
    has_blocks: bool = False
    is_text: bool = False
    width: int = WIDTH

    def only(self, places: Sequence[int]) -> "Table":
        """Return the table with some of its columns."""

        def chosen(values: Sequence[Any]) -> tuple[Any, ...]:
            return tuple(values[place] for place in places if values)

        return replace(
            self,
            columns=chosen(self.columns),
            lines=tuple(replace(line, cells=chosen(line.cells)) for line in self.lines),
            supervised=chosen(self.supervised),
        )

    @property
    def all_notes(self) -> tuple[str, ...]:
        """The notes of the blocks, then those of the table."""
        return (*(note for line in self.lines for note in line.notes), *self.notes)

    @property
    def caption(self) -> str:
        """Title, sizes and legend, each as a sentence."""
        pairs: dict[str, list[str]] = {}
        for line in self.lines:
            if line.size:
                pairs.setdefault(line.size, []).append(line.label)
        sizes = [f"{', '.join(labels)}: {size}" for size, labels in pairs.items()]
        parts = [self.title, *(pairs if len(pairs) == 1 else sizes), *self.legend]
        return " ".join(f"{part}." for part in parts if part)


def records_table(records: Sequence[Record]) -> Table:
    """Return records as a table, one a line."""
    names = column_names(records)
    lines = [text_cells(record, names) for record in records]
    corner, *columns = names or [""]
    return Table(
        tuple(columns),
        tuple(Line(label, tuple(cells)) for label, *cells in lines),
        corner=corner,
        is_text=True,
    )


def column_names(records: Sequence[Record]) -> list[str]:
    """Return the names of all records in order of first appearance."""
    return distinct(name for record in records for name in record)


def text_cells(record: Record, names: Sequence[str]) -> list[str]:
    """Return the cells of one record for people: four significant digits, empty if undefined."""
    values = [plain_value(record.get(name)) for name in names]
    return [without_minus(f"{v:.4g}") if isinstance(v, float) else str(v) for v in values]


def plain_value(value: Any) -> Any:
    """Return a value as tables show it: empty where undefined, truth in lower case."""
    if value is None or (isinstance(value, float) and value != value):
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value


def side_name(record: Record, side: str) -> str:
    """Return the name of the source or the target of a record, with its view if it has one."""
    view = record.get(f"{side}_view")
    return f"{record[side]}::{view}" if view else str(record[side])


def pair_of(record: Record) -> tuple[str, str]:
    """Return the names of source and target, with their views."""
    return side_name(record, "source"), side_name(record, "target")


def distinct(values: Iterable[Any]) -> list[Any]:
    """Return values without repetitions, in order."""
    return list(dict.fromkeys(values))


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


def short_number(value: float) -> str:
    """Return three decimals as the paper prints them: .219 for 0.219."""
    text = decimals(value, 3)
    return text[1:] if text.startswith("0.") else text


def short_percent(value: float) -> str:
    """Return a fraction in whole per cent, without the sign."""
    return without_minus(f"{100 * value:.0f}")


def decimals(value: float, digits: int) -> str:
    """Return a number with so many decimals, a very large one with its power of ten."""
    return f"{value:.1e}" if abs(value) >= LARGE else without_minus(f"{value:.{digits}f}")


def without_minus(number: str) -> str:
    """Return a number as it is written, but for the minus of one that is nothing."""
    return number if number.strip("-0.") else number.removeprefix("-")
