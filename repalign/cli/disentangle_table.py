"""The tables of ``disentangle`` in every format."""

from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from repalign.aliases import OutputFormat
from repalign.cli import output

if TYPE_CHECKING:
    from repalign.workflows.disentangle.results import DisentangleResult
    from repalign.workflows.tables.disentangle import Grid


def render_disentanglement(result: "DisentangleResult", form: OutputFormat) -> str:
    """Return a result in any of the formats; JSON is complete, CSV tidy, the rest tables."""
    from repalign.workflows.tables import disentangle as tables

    if form == "csv":
        return output.records_as_csv(result.to_records())
    if form == "json":
        return output.as_json(result.to_dict())
    if form == "markdown":
        return tables.as_markdown(tables.tables_of(result))
    if form == "latex":
        return tables.as_latex(tables.paper_tables(result))
    parts: list[RenderableType] = []
    for grid in tables.tables_of(result):
        parts += [_drawn(grid), *(Text(note, style="dim") for note in grid.notes), Text("")]
    return output.draw(Group(*parts[:-1]))


def _drawn(grid: "Grid") -> Table:
    table = Table(title=Text(grid.title), title_justify="left", header_style="bold")
    table.add_column("")
    for name in grid.columns:
        table.add_column(name, justify="right", overflow="fold")
    for row in grid.rows:
        style = "dim" if row.is_detail and any(row.cells) else ("bold" if row.is_detail else "")
        table.add_row(Text(row.label), *(Text(cell) for cell in row.cells), style=style)
    return table
