"""The formats of results: one list, from which options, endings, help and renderings follow."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from repalign.cli.tables import Shown, drawn, drawn_grids
from repalign.exceptions import InputError
from repalign.workflows.tables.markup import as_latex, as_markdown
from repalign.workflows.tables.records_text import as_csv, as_json

if TYPE_CHECKING:
    from repalign.workflows.tables.matrix import Matrix


@dataclass(frozen=True)
class Format:
    """One way to write a result.

    Attributes:
        name: As ``--format`` takes it.
        suffix: Ending of the files that are written so; empty where another format has it.
        holds: What it holds, for the help; may be empty.
        render: Makes the text.
        of_pairs: Whether only commands whose results are pairs of views have it.
    """

    name: str
    suffix: str
    holds: str
    render: Callable[[Shown], str]
    of_pairs: bool = False

    @property
    def told(self) -> str:
        """Name, ending and content, for the help."""
        return f"{self.name} ({', '.join(filter(None, (self.suffix, self.holds)))})"


MATRIX, DRAWN_MATRIX = "matrix", "matrix-table"
FORMATS = {
    each.name: each
    for each in (
        Format("table", ".txt", "", lambda shown: drawn(shown.drawing())),
        Format("csv", ".csv", "one record a row", lambda shown: as_csv(shown.records())),
        Format("json", ".json", "complete", lambda shown: as_json(shown.document())),
        Format("markdown", ".md", "", lambda shown: as_markdown(shown.layouts())),
        Format(
            "latex",
            ".tex",
            "for the package booktabs",
            lambda shown: as_latex(shown.paper_layouts()),
        ),
        Format(
            MATRIX,
            "",
            "a number (--show) for each pair of views as CSV, on a terminal drawn",
            lambda shown: as_csv(matrix_of(shown).to_records()),
            of_pairs=True,
        ),
        Format(
            DRAWN_MATRIX,
            "",
            "drawn anywhere",
            lambda shown: drawn(drawn_grids(list(matrix_of(shown).grids()))),
            of_pairs=True,
        ),
    )
}
SUFFIXES = {each.suffix: each.name for each in FORMATS.values() if each.suffix}
# Types that hold the names, so that the command line knows them without a list of its own.
if TYPE_CHECKING:
    FormatName = str
    MatrixFormatName = str
else:
    FormatName = Literal[tuple(each.name for each in FORMATS.values() if not each.of_pairs)]
    MatrixFormatName = Literal[tuple(FORMATS)]


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
