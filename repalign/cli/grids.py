"""Results that are tables of labelled rows, in every format."""

import shutil
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from rich.text import Text

from repalign.aliases import OutputFormat
from repalign.cli import output

if TYPE_CHECKING:
    from repalign.workflows.tables.grid import Emphasis, Grid

STYLES: "dict[Emphasis, str]" = {"title": "bold", "heading": "bold", "value": "", "detail": "dim"}


class Tabular(Protocol):
    """A result that has records and can be told whole."""

    def to_records(self) -> list[dict[str, Any]]:
        """Return one record a row."""

    def to_dict(self) -> Mapping[str, Any]:
        """Return everything, ready for JSON."""


def render_grids(
    result: Tabular, grids: "Sequence[Grid]", papers: "Sequence[Grid]", form: OutputFormat
) -> str:
    """Return a result in any of the formats; LaTeX has the layout of the paper's tables."""
    from repalign.workflows.tables import grid as tables

    if form == "csv":
        return output.records_as_csv(result.to_records())
    if form == "json":
        return output.as_json(result.to_dict())
    if form == "markdown":
        return tables.as_markdown(grids)
    if form == "latex":
        return tables.as_latex(papers)
    width = shutil.get_terminal_size((tables.WIDTH, 0)).columns
    text = Text()
    for place, grid in enumerate(grids):
        text.append("\n" if place else "")
        for line, emphasis in tables.text_lines(grid, width):
            text.append(f"{line}\n", style=STYLES[emphasis])
    return output.draw(text)
