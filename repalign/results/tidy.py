"""Results that are tidy records: a row a record, the same columns in every rendering."""

from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, ClassVar

from repalign.exceptions import InputError
from repalign.options import recorded_columns
from repalign.printable import counted
from repalign.tables.formats import OF_PAIRS, WRITERS, Shown
from repalign.tables.render import as_html
from repalign.tables.table import Table

if TYPE_CHECKING:
    import pandas

# A notebook shows the first.
MOST_WARNINGS = 10


def record_columns(record: Any, settings: type) -> tuple[str, ...]:
    """Return the columns of a class of records: its fields, then the recorded options."""
    names = [field.name for field in fields(record) if field.name != "conventions"]
    return tuple(dict.fromkeys([*names, *recorded_columns(settings)]))


def record_row(record: Any) -> dict[str, Any]:
    """Return a row of the CSV: the fields of a record, then its ``conventions``."""
    row = {name: value for name, value in vars(record).items() if name != "conventions"}
    return row | {name: v for name, v in record.conventions.items() if name not in row}


class TidyResult:
    """A result whose ``records`` each give one row of the CSV.

    A notebook shows it as a table, ``print`` as text, and its name in a line.
    """

    columns: ClassVar[tuple[str, ...]]
    records: tuple[Any, ...]
    warnings: "tuple[str, ...]"

    def to_records(self) -> list[dict[str, Any]]:
        """Return the records as dictionaries, one a row of the CSV."""
        return [record.to_dict() for record in self.records]

    def to_frame(self) -> "pandas.DataFrame":
        """Return the records as a pandas frame, one a row."""
        import pandas

        return pandas.DataFrame(self.to_records(), columns=list(self.columns))

    def to_dict(self) -> dict[str, Any]:
        """Return everything, ready for JSON."""
        raise NotImplementedError

    def tables(self) -> Sequence[Table]:
        """Return the tables that people read."""
        raise NotImplementedError

    def paper_tables(self) -> Sequence[Table]:
        """Return the tables in the layout of the paper, for LaTeX."""
        return self.tables()

    def shown_warnings(self) -> Sequence[str]:
        """Return the warnings that stand below tables."""
        return self.warnings

    def size(self) -> str:
        """Say what was asked about, for a line."""
        return ", ".join(dict.fromkeys(str(record.source) for record in self.records))

    def shown(self) -> Shown:
        """Return the result in the shapes that formats want."""
        return Shown(
            records=self.to_records,
            document=self.to_dict,
            tables=self.tables,
            paper_tables=self.paper_tables,
            warnings=self.shown_warnings,
        )

    def table(self, form: str = "table") -> str:
        """Return the result in a format of the command line: text unless one is named.

        Raises:
            InputError: There is no such format of this result.

        Example:
            >>> import numpy as np, repalign
            >>> x = np.random.default_rng(0).laplace(size=(60, 3))
            >>> result = repalign.compare(x, 2 * x, quick=True, maps="rigid", names=("A", "B"))
            >>> result
            <CompareResult of A → B, 60 rows: 1 record, 1 warning; print it for the table>
            >>> print(result.table("markdown").splitlines()[0])
            |  | Rigid ↓ |
        """
        shown = self.shown()
        names = [name for name in WRITERS if shown.matrix or name not in OF_PAIRS]
        if not isinstance(form, str) or form not in names:
            raise InputError(f"table: got {form!r}, expected one of: {', '.join(names)}")
        return WRITERS[form](shown)

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        counts = f"{counted(len(self.to_records()), 'record')}, "
        counts += counted(len(self.warnings), "warning")
        return f"<{type(self).__name__} of {self.size()}: {counts}; print it for the table>"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the tables, and the warnings behind them."""
        shown = list(self.shown_warnings())
        n_hidden = len(shown[MOST_WARNINGS:])
        more = [f"and {n_hidden} more in result.warnings"] if n_hidden else []
        return as_html(self.tables(), [*shown[:MOST_WARNINGS], *more])
