"""The formats in which every result is written, by their names on the command line."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from repalign.exceptions import InputError
from repalign.tables.records import as_csv, as_json
from repalign.tables.render import as_latex, as_markdown, as_text
from repalign.tables.table import Record, Table, records_table
from repalign.tables.warnings import warnings_below

if TYPE_CHECKING:
    from repalign.tables.matrix import Matrix


@dataclass(frozen=True)
class Shown:
    """One result in all the shapes that a format may want; each is made when it is asked for.

    Attributes:
        records: Tidy, one a row.
        document: Complete, ready for JSON.
        tables: For people.
        paper_tables: For LaTeX, where these are others.
        matrix: One number of each pair of views, where there are pairs.
        warnings: They stand below the tables.
    """

    records: Callable[[], Sequence[Record]]
    document: Callable[[], Any]
    tables: Callable[[], Sequence[Table]]
    paper_tables: Callable[[], Sequence[Table]] | None = None
    matrix: "Callable[[], Matrix] | None" = None
    warnings: Callable[[], Sequence[str]] = tuple

    def matrix_tables(self) -> Sequence[Table]:
        """Return the tables of the matrix."""
        return list(matrix_of(self).tables())


def shown_records(records: Sequence[Record], document: Any = None) -> Shown:
    """Show records; the document is the records too, unless there is a fuller one."""
    return Shown(
        records=lambda: records,
        document=lambda: [dict(record) for record in records] if document is None else document,
        tables=lambda: [records_table(records)],
    )


def matrix_of(shown: Shown) -> "Matrix":
    """Return the matrix of a result.

    Raises:
        InputError: It has none.
    """
    if shown.matrix is None:
        raise InputError("--format matrix: only compare has pairs of views; choose another format")
    return shown.matrix()


def _text(tables: Sequence[Table], shown: Shown) -> str:
    return as_text(tables) + warnings_below(shown.warnings())


WRITERS: Mapping[str, Callable[[Shown], str]] = {
    "table": lambda shown: _text(shown.tables(), shown),
    "csv": lambda shown: as_csv(shown.records()),
    "json": lambda shown: as_json(shown.document()),
    "markdown": lambda shown: as_markdown(shown.tables(), shown.warnings()),
    "latex": lambda shown: as_latex((shown.paper_tables or shown.tables)(), shown.warnings()),
    "matrix": lambda shown: as_csv(matrix_of(shown).to_records()),
    "matrix-table": lambda shown: _text(shown.matrix_tables(), shown),
    "matrix-markdown": lambda shown: as_markdown(shown.matrix_tables(), shown.warnings()),
    "matrix-latex": lambda shown: as_latex(shown.matrix_tables(), shown.warnings()),
}
OF_PAIRS = tuple(name for name in WRITERS if name.startswith("matrix"))
