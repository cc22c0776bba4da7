"""The formats of results: one list, from which options, endings, help and renderings follow."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rich.console import RenderableType

from repalign.cli.tables import Shown, drawn, drawn_tables
from repalign.exceptions import InputError
from repalign.workflows.tables.records import as_csv, as_json
from repalign.workflows.tables.render import as_latex, as_markdown
from repalign.workflows.tables.table import Table
from repalign.workflows.tables.warnings import warnings_below

if TYPE_CHECKING:
    from repalign.workflows.tables.matrix import Matrix


@dataclass(frozen=True)
class Format:
    """One way to write a result.

    Attributes:
        name: As ``--format`` takes it.
        suffix: Ending of the files that are written so.
        holds: What it holds, for the help; may be empty.
        render: Makes the text; whether that is for a terminal, which has colours, and shows the
            warnings on stderr.
        of_pairs: Whether only commands whose results are pairs of views have it; its ending
            without ``--format`` means another one.
    """

    name: str
    suffix: str
    holds: str
    render: Callable[[Shown, bool], str]
    of_pairs: bool = False

    @property
    def told(self) -> str:
        """Name, ending and content, for the help."""
        return f"{self.name} ({', '.join(filter(None, (self.suffix, self.holds)))})"


def _table(shown: Shown, on_terminal: bool) -> str:
    drawing = drawn_tables(shown.tables()) if shown.drawing is None else shown.drawing()
    return _with_warnings(drawing, shown, on_terminal)


def _matrix_table(shown: Shown, on_terminal: bool) -> str:
    return _with_warnings(drawn_tables(_matrices(shown)), shown, on_terminal)


def _with_warnings(drawing: RenderableType, shown: Shown, on_terminal: bool) -> str:
    below = "" if on_terminal else warnings_below(shown.warnings())
    return drawn(drawing, on_terminal=on_terminal) + below


def _matrices(shown: Shown) -> list[Table]:
    return list(matrix_of(shown).tables())


MATRIX = "matrix"
FORMATS = {
    each.name: each
    for each in (
        Format("table", ".txt", "", _table),
        Format("csv", ".csv", "one record a row", lambda shown, _: as_csv(shown.records())),
        Format("json", ".json", "complete", lambda shown, _: as_json(shown.document())),
        Format(
            "markdown", ".md", "", lambda shown, _: as_markdown(shown.tables(), shown.warnings())
        ),
        Format(
            "latex",
            ".tex",
            "for the package booktabs",
            lambda shown, _: as_latex((shown.paper_tables or shown.tables)(), shown.warnings()),
        ),
        Format(
            MATRIX,
            ".csv",
            "one number (--show) for each pair of views; on a terminal and for the endings below "
            "as one of them",
            lambda shown, _: as_csv(matrix_of(shown).to_records()),
            of_pairs=True,
        ),
        Format("matrix-table", ".txt", "", _matrix_table, of_pairs=True),
        Format(
            "matrix-markdown",
            ".md",
            "",
            lambda shown, _: as_markdown(_matrices(shown), shown.warnings()),
            of_pairs=True,
        ),
        Format(
            "matrix-latex",
            ".tex",
            "",
            lambda shown, _: as_latex(_matrices(shown), shown.warnings()),
            of_pairs=True,
        ),
    )
}
SUFFIXES = {each.suffix: each.name for each in FORMATS.values() if not each.of_pairs}
# How a matrix is written into files of these endings.
MATRICES = {each.suffix: each.name for each in FORMATS.values() if each.of_pairs}
# Types that hold the names, so that the command line knows them without a list of its own.
if TYPE_CHECKING:
    FormatName = str
    MatrixFormatName = str
else:
    FormatName = Literal[tuple(each.name for each in FORMATS.values() if not each.of_pairs)]
    MatrixFormatName = Literal[tuple(FORMATS)]


def render(shown: Shown, form: str, *, on_terminal: bool = False) -> str:
    """Return a result in one of the formats."""
    return FORMATS[form].render(shown, on_terminal)


def matrix_of(shown: Shown) -> "Matrix":
    """Return the matrix of a result.

    Raises:
        InputError: It has none.
    """
    if shown.matrix is None:
        raise InputError("--format matrix: only compare has pairs of views; choose another format")
    return shown.matrix()
