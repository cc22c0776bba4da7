"""A heat map once more as a table, whose row names stay on a screen that is too narrow for it."""

from collections.abc import Iterator

from repalign.printable import for_html
from repalign.workflows.tables.grid import number
from repalign.workflows.tables.matrix import UNDEFINED, Matrix


def matrix_table(matrix: Matrix) -> str:
    """Return the values behind a fold, the closest target of each source in bold."""
    closest = {(row, column) for (row, _), column in matrix.closest().items()}
    head = "".join(f"<th scope=col>{for_html(view.name)}</th>" for view in matrix.columns)
    rows = "".join(
        f"<tr><th scope=row>{for_html(view.name)}</th>{''.join(_cells(matrix, row, closest))}</tr>"
        for row, view in enumerate(matrix.rows)
    )
    legend = "; bold: the closest target" if closest else ""
    return (
        f"<details><summary>The same in numbers{for_html(legend)}</summary>"
        '<div class="scroll tall" tabindex=0 role=region aria-label="Values of all pairs">'
        "<table><thead><tr><th scope=col>from \\ to</th>"
        f"{head}</tr></thead><tbody>{rows}</tbody></table></div></details>"
    )


def _cells(matrix: Matrix, row: int, closest: set[tuple[int, int]]) -> Iterator[str]:
    for column in range(len(matrix.columns)):
        if (row, column) not in matrix.values:
            yield "<td></td>"
            continue
        value = matrix.values[row, column]
        text = UNDEFINED if value is None else number(value)
        yield f"<td class=error>{text}</td>" if (row, column) in closest else f"<td>{text}</td>"
