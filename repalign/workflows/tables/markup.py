"""Tables as Markdown and LaTeX (needs the package booktabs)."""

from collections.abc import Sequence

from repalign.printable import for_latex, for_markdown, printable
from repalign.workflows.tables.layout import Layout, Line


def as_markdown(layouts: Sequence[Layout]) -> str:
    """Return tables as Markdown, one below another."""
    return "\n\n".join(_markdown(layout) for layout in layouts) + "\n"


def as_latex(layouts: Sequence[Layout]) -> str:
    """Return tables as LaTeX, one below another."""
    return "\n\n".join(_latex(layout) for layout in layouts) + "\n"


def _markdown(layout: Layout) -> str:
    parts = [] if not layout.title else [f"**{for_markdown(layout.title)}**"]
    rows = [layout.columns, *(line.cells for line in layout.lines)]
    texts = ["| " + " | ".join(for_markdown(cell.strip()) for cell in row) + " |" for row in rows]
    parts.append("\n".join([texts[0], "|" + "---|" * len(layout.columns), *texts[1:]]))
    if layout.notes:
        parts.append("\n".join(f"- {for_markdown(note)}" for note in layout.notes))
    if layout.caption:
        parts.append(for_markdown(" ".join(layout.caption)))
    return "\n\n".join(parts)


def _latex(layout: Layout) -> str:
    n_numbers = len(layout.columns) - layout.n_labels
    head = [
        *([f"% {printable(layout.title)}"] if layout.title else []),
        rf"\begin{{tabular}}{{{'l' * layout.n_labels}{'r' * n_numbers}}}",
        r"\toprule",
        *_latex_over(layout),
        _latex_row(layout.columns),
        r"\midrule",
    ]
    body = [text for line in layout.lines for text in _latex_line(line, len(layout.columns))]
    comments = [f"% {printable(text)}" for text in (*layout.notes, *layout.caption)]
    return "\n".join([*head, *body, r"\bottomrule", r"\end{tabular}", *comments])


def _latex_over(layout: Layout) -> list[str]:
    if layout.over is None:
        return []
    first, last, text = layout.over
    spans = [""] * first
    spans += [rf"\multicolumn{{{last - first + 1}}}{{c}}{{{for_latex(text)}}}"]
    spans += [""] * (len(layout.columns) - last - 1)
    return [" & ".join(spans) + rf" \\ \cmidrule(lr){{{first + 1}-{last + 1}}}"]


def _latex_line(line: Line, n_columns: int) -> list[str]:
    rule = [r"\midrule"] if line.starts_block else []
    if line.is_heading:
        heading = for_latex(line.cells[0].strip())
        return [*rule, rf"\multicolumn{{{n_columns}}}{{l}}{{\emph{{{heading}}}}} \\"]
    return [*rule, _latex_row(line.cells)]


def _latex_row(cells: Sequence[str]) -> str:
    return " & ".join(for_latex(cell.strip()) for cell in cells) + r" \\"
