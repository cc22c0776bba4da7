"""How data are read: the unit of plain text, and the columns of tables."""

from dataclasses import dataclass
from typing import Literal

from repalign.options import Settings, option

Unit = Literal["line", "paragraph", "file"]
PANEL = "The data"


@dataclass(frozen=True)
class ReadOptions(Settings):
    """How to read data: the unit of plain text, and the columns of tables."""

    unit: Unit | None = option(
        None,
        "What one sample of plain text is.",
        panel=PANEL,
        absent="a line of a file, a file of a directory",
    )
    column: str | None = option(
        None,
        "Column or field of a table, archive or data set.",
        panel=PANEL,
        absent="text, or images",
    )
    id_column: str | None = option(
        None, "Column with the samples' ids.", panel=PANEL, absent="row numbers"
    )
