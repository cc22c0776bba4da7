"""Tables as Markdown, HTML and LaTeX (needs the package booktabs)."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from repalign.printable import for_html, for_latex, for_markdown, printable
from repalign.workflows.tables.layout import Layout, Line

# Points: the text of a page in the class article, and what a letter and the gap between columns
# take in \\footnotesize; digits are 4.25, capitals more.
PAGE_WIDTH, LETTER, GAP = 345.0, 4.5, 6.0
# Lines of a page below a caption of some length, and what a tabular takes beside its own.
PAGE_LINES, HEAD_LINES = 46, 4
CONTINUED = "(continued)"
WARNINGS = "Before you believe it"
_NUMBER = r"-?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?"
# One number, or several with their signs between: -14 ± 1, -.05–.1, -4 to 60
_NUMBERS = re.compile(rf"{_NUMBER}(( ± |–| to ){_NUMBER})*\*?")


def as_markdown(layouts: Sequence[Layout], warnings: Sequence[str] = ()) -> str:
    """Return tables as Markdown, one below another, and the warnings behind them."""
    parts = [_markdown(layout) for layout in layouts]
    if warnings:
        parts += [f"**{WARNINGS}**", "\n".join(f"- {for_markdown(text)}" for text in warnings)]
    return "\n\n".join(parts) + "\n"


def as_latex(layouts: Sequence[Layout], warnings: Sequence[str] = ()) -> str:
    """Return tables as LaTeX, one below another, and the warnings as comments behind them."""
    parts = [_latex(layout) for layout in layouts]
    if warnings:
        parts.append("\n".join(f"% warning: {printable(text)}" for text in warnings))
    return "\n\n".join(parts) + "\n"


def as_html(layouts: Sequence[Layout], warnings: Sequence[str] = ()) -> str:
    """Return tables as HTML for a notebook, one below another, and the warnings behind them."""
    parts = [_html(layout) for layout in layouts]
    if warnings:
        told = "".join(f"<li>{for_html(text)}</li>" for text in warnings)
        parts.append(f"<p><strong>{WARNINGS}</strong></p><ul>{told}</ul>")
    return "<div>" + "\n".join(parts) + "</div>"


def _html(layout: Layout) -> str:
    told = " ".join([*([f"{layout.title}."] if layout.title else []), *layout.caption])
    head = _html_over(layout) + _html_row("th", layout.columns, layout.n_labels)
    body = "".join(
        f'<tr><th colspan="{len(layout.columns)}" style="text-align:left">'
        f"{for_html(line.cells[0].strip())}</th></tr>"
        if line.is_heading
        else _html_row("td", line.cells, layout.n_labels)
        for line in layout.lines
    )
    notes = "".join(f"<li>{for_html(text)}</li>" for text in layout.notes)
    return (
        f"<table><thead>{head}</thead><tbody>{body}</tbody></table>"
        + (f"<p><small>{for_html(told)}</small></p>" if told else "")
        + (f"<small><ul>{notes}</ul></small>" if notes else "")
    )


def _html_over(layout: Layout) -> str:
    if layout.over is None:
        return ""
    first, last, text = layout.over
    spans = f'<th colspan="{first}"></th>' if first else ""
    spans += f'<th colspan="{last - first + 1}" style="text-align:center">{for_html(text)}</th>'
    after = len(layout.columns) - last - 1
    return f"<tr>{spans}" + (f'<th colspan="{after}"></th>' if after else "") + "</tr>"


def _html_row(kind: str, cells: Sequence[str], n_labels: int) -> str:
    told = "".join(
        f'<{kind} style="text-align:{"left" if place < n_labels else "right"}">'
        f"{for_html(cell.strip())}</{kind}>"
        for place, cell in enumerate(cells)
    )
    return f"<tr>{told}</tr>"


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
    return "\n\n".join(_float(part) for part in _pages(layout))


def _pages(layout: Layout) -> Iterator[Layout]:
    """Cut the lines between blocks into runs that fit the page; the notes stand below the last."""
    n_parts = sum(1 for _ in _fitting(layout))
    most = PAGE_LINES // n_parts - HEAD_LINES
    pages: list[list[Line]] = [[]]
    for block in _blocks(layout.lines):
        if pages[-1] and len(pages[-1]) + len(block) > most:
            pages.append([])
        pages[-1] += block
    for number, lines in enumerate(pages):
        # below the headings there is a rule already
        first = [replace(line, starts_block=False) for line in lines[:1]]
        page = replace(layout, lines=(*first, *lines[1:]))
        if number > 0:
            page = replace(page, title=f"{layout.title} {CONTINUED}".lstrip(), caption=())
        yield page if number == len(pages) - 1 else replace(page, notes=())


def _blocks(lines: Sequence[Line]) -> Iterator[list[Line]]:
    """Return runs of lines that stay together: from a rule or a heading to the next, or each."""
    if not any(line.starts_block or line.is_heading for line in lines):
        yield from ([line] for line in lines)
        return
    block: list[Line] = []
    for line in lines:
        if block and (line.starts_block or line.is_heading) and not block[-1].is_heading:
            yield block
            block = []
        block.append(line)
    yield block


def _float(layout: Layout) -> str:
    parts = "\n\n".join(_tabular(part) for part in _fitting(layout))
    told = [*([f"{layout.title}."] if layout.title else []), *layout.caption]
    caption = for_latex(" ".join(told))
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering\footnotesize\setlength{\tabcolsep}{3pt}",
            *([r"\addtocounter{table}{-1}"] if layout.title.endswith(CONTINUED) else []),
            *([rf"\caption{{{caption}}}"] if told else []),
            parts,
            r"\end{table}",
            *(f"% {printable(text)}" for text in layout.notes),
        ]
    )


def _tabular(layout: Layout) -> str:
    n_numbers = len(layout.columns) - layout.n_labels
    head = [
        rf"\begin{{tabular}}{{{'l' * layout.n_labels}{'r' * n_numbers}}}",
        r"\toprule",
        *_latex_over(layout),
        _latex_row(layout.columns),
        r"\midrule",
    ]
    body = [text for line in layout.lines for text in _latex_line(line, len(layout.columns))]
    return "\n".join([*head, *body, r"\bottomrule", r"\end{tabular}"])


def _fitting(layout: Layout) -> Iterator[Layout]:
    """Cut the columns of numbers into runs that fit the page, the labels before each."""
    texts = [line.cells for line in layout.lines if not line.is_heading]
    widths = [
        max(len(row[place].strip()) for row in (layout.columns, *texts)) * LETTER + GAP
        for place in range(len(layout.columns))
    ]
    # a label that takes the page by itself leaves no table that fits
    labels = min(sum(widths[: layout.n_labels]), PAGE_WIDTH / 2)
    runs: list[list[int]] = [[]]
    for place in range(layout.n_labels, len(widths)):
        used = labels + sum(widths[other] for other in runs[-1])
        if runs[-1] and used + widths[place] > PAGE_WIDTH:
            runs.append([])
        runs[-1].append(place)
    for run in runs:
        yield layout if len(runs) == 1 else _only(layout, run)


def _only(layout: Layout, run: Sequence[int]) -> Layout:
    kept = [*range(layout.n_labels), *run]
    over = None
    if layout.over is not None:
        first, last, text = layout.over
        within = [kept.index(place) for place in run if first <= place <= last]
        over = (within[0], within[-1], text) if within else None
    return replace(
        layout,
        columns=tuple(layout.columns[place] for place in kept),
        lines=tuple(
            replace(line, cells=tuple(line.cells[place] for place in kept)) for line in layout.lines
        ),
        over=over,
    )


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
    return " & ".join(_latex_cell(cell.strip()) for cell in cells) + r" \\"


def _latex_cell(cell: str) -> str:
    """Return a cell for LaTeX: numbers with a minus instead of a hyphen, and powers of ten."""
    if not _NUMBERS.fullmatch(cell):
        return for_latex(cell)
    text = for_latex(re.sub("(?<!e)-", "−", cell))
    return re.sub(r"e\+?(-?)0*(\d+)", r"$\\cdot10^{\1\2}$", text)
