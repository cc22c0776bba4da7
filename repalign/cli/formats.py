"""The formats of results: one list, from which options, endings and help follow."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from repalign.cli.tables import drawn
from repalign.tables.formats import OF_PAIRS, WRITERS, Shown
from repalign.tables.warnings import warnings_below


@dataclass(frozen=True)
class Format:
    """One way to write a result.

    Attributes:
        name: As ``--format`` takes it.
        suffix: Ending of the files that are written so.
        holds: What it holds, for the help; may be empty.
    """

    name: str
    suffix: str
    holds: str = ""

    @property
    def of_pairs(self) -> bool:
        """Whether only commands whose results are pairs of views have it.

        Its ending without ``--format`` means another one.
        """
        return self.name in OF_PAIRS

    @property
    def told(self) -> str:
        """Name, ending and content, for the help."""
        return f"{self.name} ({', '.join(filter(None, (self.suffix, self.holds)))})"


MATRIX = "matrix"
FORMATS = {
    form.name: form
    for form in (
        Format("table", ".txt"),
        Format("csv", ".csv", "one record a row"),
        Format("json", ".json", "complete"),
        Format("markdown", ".md"),
        Format("latex", ".tex", "for the package booktabs"),
        Format(
            MATRIX,
            ".csv",
            "one number (--show) for each pair of views; on a terminal and for the endings below "
            "as one of them",
        ),
        Format("matrix-table", ".txt"),
        Format("matrix-markdown", ".md"),
        Format("matrix-latex", ".tex"),
    )
}
SUFFIXES = {form.suffix: form.name for form in FORMATS.values() if not form.of_pairs}
# How a matrix is written into files of these endings.
MATRICES = {form.suffix: form.name for form in FORMATS.values() if form.of_pairs}
# Types that hold the names, so that the command line knows them without a list of its own.
if TYPE_CHECKING:
    FormatName = str
    MatrixFormatName = str
else:
    FormatName = Literal[tuple(form.name for form in FORMATS.values() if not form.of_pairs)]
    MatrixFormatName = Literal[tuple(FORMATS)]


def render(shown: Shown, form: str, *, on_terminal: bool = False) -> str:
    """Return a result in one of the formats; on a terminal warnings are on stderr."""
    if not form.endswith("table"):
        return WRITERS[form](shown)
    tables = shown.tables() if form == "table" else shown.matrix_tables()
    return drawn(tables, on_terminal=on_terminal) + (
        "" if on_terminal else warnings_below(shown.warnings())
    )
