"""The formats of results: one list, from which options, endings, help and renderings follow."""

import csv
import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from repalign.cli.tables import Shown, drawn, drawn_grids
from repalign.exceptions import InputError
from repalign.printable import for_csv, printable
from repalign.workflows.tables.layout import Record, column_names, plain_value
from repalign.workflows.tables.markup import as_latex, as_markdown

if TYPE_CHECKING:
    from repalign.workflows.tables.matrix import Matrix


@dataclass(frozen=True)
class Format:
    """One way to write a result.

    Attributes:
        name: As ``--format`` takes it.
        suffix: Ending of the files that are written so; empty where another format has it.
        holds: What it holds, for the help.
        render: Makes the text.
    """

    name: str
    suffix: str
    holds: str
    render: Callable[[Shown], str]

    @property
    def told(self) -> str:
        """Name, ending and content, for the help."""
        return f"{self.name} ({', '.join(filter(None, (self.suffix, self.holds)))})"


def as_csv(records: Sequence[Record]) -> str:
    """Return records as CSV in full precision; an undefined value is an empty cell."""
    buffer = io.StringIO()
    names = column_names(records)
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([for_csv(name) for name in names])
    for record in records:
        writer.writerow([_csv_cell(record.get(name)) for name in names])
    return buffer.getvalue()


def as_json(value: Any) -> str:
    """Return a value as JSON that every parser reads: NaN and infinity become null.

    Letters that act on a terminal are written as numbers, which stand for the same text.
    """
    text = json.dumps(_finite(value), indent=2, ensure_ascii=False, allow_nan=False)
    if text.isascii() and text.replace("\n", "").isprintable():
        return text
    return _NOT_ASCII.sub(lambda found: _json_letter(found.group()), text)


# Everything but the letters and the line breaks of ASCII, which json.dumps has dealt with.
_NOT_ASCII = re.compile(r"[^\n\x20-\x7e]")

MATRIX, DRAWN_MATRIX = "matrix", "matrix-table"
FORMATS = {
    each.name: each
    for each in (
        Format("table", ".txt", "for people", lambda shown: drawn(shown.drawing())),
        Format("csv", ".csv", "tidy, one record a row", lambda shown: as_csv(shown.records())),
        Format("json", ".json", "complete", lambda shown: as_json(shown.document())),
        Format("markdown", ".md", "a table", lambda shown: as_markdown(shown.layouts())),
        Format(
            "latex",
            ".tex",
            "a table for the package booktabs",
            lambda shown: as_latex(shown.paper_layouts()),
        ),
        Format(
            MATRIX,
            "",
            "of compare: one number (--show) for each pair of views, as CSV, on a terminal drawn",
            lambda shown: as_csv(matrix_of(shown).to_records()),
        ),
        Format(
            DRAWN_MATRIX,
            "",
            "drawn anywhere",
            lambda shown: drawn(drawn_grids(list(matrix_of(shown).grids()))),
        ),
    )
}
SUFFIXES = {each.suffix: each.name for each in FORMATS.values() if each.suffix}
# A type that holds the names, so that the command line knows them without a list of its own.
if TYPE_CHECKING:
    FormatName = str
else:
    FormatName = Literal[tuple(FORMATS)]


def render(shown: Shown, form: str) -> str:
    """Return a result in one of the formats."""
    return FORMATS[form].render(shown)


def matrix_of(shown: Shown) -> "Matrix":
    """Return the matrix of a result.

    Raises:
        InputError: It has none.
    """
    if shown.matrix is None:
        raise InputError("--format matrix: only compare has pairs of views; choose another format")
    return shown.matrix()


def _csv_cell(value: Any) -> Any:
    value = plain_value(value)
    if isinstance(value, int | float):
        return value
    return for_csv(str(value))


def _json_letter(letter: str) -> str:
    return letter if printable(letter) == letter else json.dumps(letter)[1:-1]


def _finite(value: Any) -> Any:
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if hasattr(value, "item") and not hasattr(value, "__len__"):
        return _finite(value.item())
    return value
