"""The error table of ``compare`` in every format."""

import shutil
from typing import TYPE_CHECKING

from rich.text import Text

from repalign.aliases import OutputFormat
from repalign.cli import output

if TYPE_CHECKING:
    from repalign.workflows.compare.results import CompareResult
    from repalign.workflows.tables.errors import ErrorTable

STYLES = {"heading": "bold", "title": "bold cyan", "error": "", "detail": "dim", "caption": "dim"}
WIDTH_OFF_TERMINAL = 120


def render_result(result: "CompareResult", form: OutputFormat) -> str:
    """Return a result in any of the formats; JSON is complete, CSV tidy, the rest a table."""
    from repalign.workflows.tables.text import as_latex, as_markdown

    if form == "csv":
        return output.records_as_csv(result.to_records())
    if form == "json":
        return output.as_json(result.to_dict())
    table = result.error_table()
    if form == "markdown":
        return as_markdown(table)
    if form == "latex":
        return as_latex(table)
    return render_table(table)


def render_table(table: "ErrorTable") -> str:
    """Return the table for a terminal, within its width."""
    from repalign.workflows.tables.text import text_lines

    lines = [
        Text(text, style=STYLES[emphasis]) for text, emphasis in text_lines(table, terminal_width())
    ]
    return output.draw(Text("\n").join(lines))


def terminal_width() -> int:
    """Return the columns of the terminal, or a width that suits a file."""
    return shutil.get_terminal_size((WIDTH_OFF_TERMINAL, 0)).columns
