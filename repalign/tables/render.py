"""Tables as text, Markdown, HTML and LaTeX (which needs the package booktabs)."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from textwrap import wrap
from typing import Literal

from repalign.printable import for_html, for_latex, for_markdown, printable
from repalign.tables.table import GAP, Line, Table

# Points: the text of a page in the class article, and what a letter and the gap between columns
# take in \\footnotesize; digits are 4.25, capitals more.
PAGE_WIDTH, LETTER, COLUMN_GAP = 345.0, 4.5, 6.0
# Lines of a page below a caption of some length, and what a tabular takes besides its own.
PAGE_LINES, HEAD_LINES = 46, 4
LEGEND_WIDTH = 79
CONTINUED = "(continued)"
WARNINGS = "Before you believe it"
_NUMBER = r"-?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?"
# One number, or several with their signs between: -14 ± 1, -.05–.1, -4 to 60
_NUMBERS = re.compile(rf"{_NUMBER}(( ± |–| to ){_NUMBER})*\*?")
# Between words; a path stays whole, to be copied.
_wrapped = partial(wrap, subsequent_indent=GAP, break_long_words=False, break_on_hyphens=False)

Emphasis = Literal["title", "heading", "value", "detail"]


def as_text(tables: Sequence[Table]) -> str:
    """Return tables as text of their width at most, where a single column fits."""
    return "\n".join(
        "".join(f"{line}\n" for line, _ in text_lines(table, table.width)) for table in tables
    )


def text_lines(table: Table, width: int) -> Iterator[tuple[str, Emphasis]]:
    """Yield the lines of a table with what each is; columns that do not fit come below."""
    table = _printable(table)
    labels = max((len(line.label) for line in table.lines if line.cells), default=0)
    yield from ((text, "title") for text in _wrapped(table.title, width))
    sizes = _text_widths(table)
    for places in _runs([len(GAP) + size for size in sizes], width - labels):
        yield from _text_columns(table.only(places), labels, width)
    n_blocks = sum(line.is_heading for line in table.lines)
    for line in table.lines:
        if line.notes and n_blocks > 1:
            yield _title_of(line), "title"
        for note in line.notes:
            yield from ((text, "detail") for text in wrap(note, width, subsequent_indent=GAP))
        if line.notes:
            yield "", "detail"
    for note in table.notes:
        yield from ((text, "detail") for text in _wrapped(note, width))
    yield from ((text, "detail") for text in legend_lines(table))


def legend_lines(table: Table) -> list[str]:
    """Return the legend in lines of a terminal."""
    return [
        text for part in table.legend for text in wrap(part, LEGEND_WIDTH, break_on_hyphens=False)
    ]


def _text_columns(table: Table, labels: int, width: int) -> Iterator[tuple[str, Emphasis]]:
    """Yield the lines of columns that fit the width."""
    sizes = _text_widths(table)
    if sum(table.supervised) > 1:
        first, last = _span(table.supervised)
        before = sum(len(GAP) + size for size in sizes[:first]) + len(GAP) + labels
        span = sum(len(GAP) + size for size in sizes[first : last + 1]) - len(GAP)
        yield " " * before + " supervised ".center(span, "─"), "heading"
    headings = [
        [name] if table.has_blocks else wrap(name, size)
        for name, size in zip(table.columns, sizes, strict=True)
    ]
    height = max(map(len, headings), default=0)
    for row in range(height):
        cells = [([""] * (height - len(texts)) + texts)[row] for texts in headings]
        yield _joined("", labels, cells, sizes), "heading"
    for line in table.lines:
        if line.cells:
            text = _joined(line.label, labels, line.cells, sizes)
            yield text, "detail" if line.is_detail else "value"
        elif table.has_blocks:
            yield "", "detail"
            yield _title_of(line), "title"
        else:
            yield from ((text, "heading") for text in _wrapped(line.label, width))
    yield "", "detail"


def _title_of(line: Line) -> str:
    return f"{line.label}   {line.size}" if line.size else line.label


def _text_widths(table: Table) -> list[int]:
    """Return how wide every column is: its widest cell, or the longest word of its heading."""
    cells = [line.cells for line in table.lines if line.cells]
    return [
        max(map(len, [*([name] if table.has_blocks else name.split()), *(c[place] for c in cells)]))
        for place, name in enumerate(table.columns)
    ]


def _joined(label: str, labels: int, cells: Sequence[str], sizes: Sequence[int]) -> str:
    padded = [cell.rjust(size) for cell, size in zip(cells, sizes, strict=True)]
    return GAP.join([label.ljust(labels), *padded]).rstrip()


def _printable(table: Table) -> Table:
    """Return the table with what may come from files made printable."""

    def visible(texts: Sequence[str]) -> tuple[str, ...]:
        return tuple(map(printable, texts))

    lines = [
        replace(
            line,
            label=printable(line.label),
            cells=visible(line.cells),
            notes=visible(line.notes),
        )
        for line in table.lines
    ]
    return replace(
        table,
        title=printable(table.title),
        columns=visible(table.columns),
        lines=tuple(lines),
        notes=visible(table.notes),
    )


def _runs(sizes: Sequence[float], room: float) -> list[list[int]]:
    """Cut columns of some sizes into runs that fit, at least one column each."""
    runs: list[list[int]] = [[]]
    for place, size in enumerate(sizes):
        if runs[-1] and sum(sizes[other] for other in runs[-1]) + size > room:
            runs.append([])
        runs[-1].append(place)
    return runs


def _span(flags: Sequence[bool]) -> tuple[int, int]:
    """Return the first and the last column of a span."""
    return flags.index(True), len(flags) - 1 - flags[::-1].index(True)


def as_markdown(tables: Sequence[Table], warnings: Sequence[str] = ()) -> str:
    """Return tables as Markdown, one below another, and the warnings behind them."""
    parts = [part for table in tables for part in _markdown(table)]
    if warnings:
        parts += [f"**{WARNINGS}**", "\n".join(f"- {for_markdown(text)}" for text in warnings)]
    return "\n\n".join(parts) + "\n"


def _markdown(table: Table) -> Iterator[str]:
    if table.title:
        yield f"**{for_markdown(table.title)}**"
    rows = [_cells(line, table) for line in table.lines]
    head, *body = [
        "| " + " | ".join(for_markdown(cell.strip()) for cell in row) + " |"
        for row in [(table.corner, *table.columns), *rows]
    ]
    yield "\n".join([head, "|" + "---|" * (1 + len(table.columns)), *body])
    if table.all_notes:
        yield "\n".join(f"- {for_markdown(note)}" for note in table.all_notes)
    caption = replace(table, title="").caption
    if caption:
        yield for_markdown(caption)


def _cells(line: Line, table: Table) -> tuple[str, ...]:
    """Return label and cells; those of a heading are blank."""
    return (line.label, *(line.cells or [""] * len(table.columns)))


def as_html(tables: Sequence[Table], warnings: Sequence[str] = ()) -> str:
    """Return tables as HTML for a notebook, one below another, and the warnings behind them."""
    parts = [_html(table) for table in tables]
    if warnings:
        items = "".join(f"<li>{for_html(text)}</li>" for text in warnings)
        parts.append(f"<p><strong>{WARNINGS}</strong></p><ul>{items}</ul>")
    return "<div>" + "\n".join(parts) + "</div>"


def _html(table: Table) -> str:
    n_columns = 1 + len(table.columns)
    head = _html_row("th", (table.corner, *table.columns), table)
    if any(table.supervised):
        first, last = _span((False, *table.supervised))
        after = n_columns - last - 1
        head = (
            f'<tr><th colspan="{first}"></th>'
            f'<th colspan="{last - first + 1}" style="text-align:center">Supervised</th>'
            + (f'<th colspan="{after}"></th>' if after else "")
            + f"</tr>{head}"
        )
    body = "".join(
        f'<tr><th colspan="{n_columns}" style="text-align:left">'
        f"{for_html(line.label.strip())}</th></tr>"
        if _is_heading(line, table)
        else _html_row("td", (line.label, *line.cells), table)
        for line in table.lines
    )
    notes = "".join(f"<li>{for_html(text)}</li>" for text in table.all_notes)
    return (
        f"<table><thead>{head}</thead><tbody>{body}</tbody></table>"
        + (f"<p><small>{for_html(table.caption)}</small></p>" if table.caption else "")
        + (f"<small><ul>{notes}</ul></small>" if notes else "")
    )


def _html_row(kind: str, cells: Sequence[str], table: Table) -> str:
    row = "".join(
        f'<{kind} style="text-align:{"right" if place and not table.is_text else "left"}">'
        f"{for_html(cell.strip())}</{kind}>"
        for place, cell in enumerate(cells)
    )
    return f"<tr>{row}</tr>"


def as_latex(tables: Sequence[Table], warnings: Sequence[str] = ()) -> str:
    """Return tables as LaTeX, one below another, and the warnings as comments behind them."""
    parts = [part for table in tables for part in _latex(table)]
    if warnings:
        parts.append("\n".join(f"% warning: {printable(text)}" for text in warnings))
    return "\n\n".join(parts) + "\n"


def _latex(table: Table) -> Iterator[str]:
    """Yield a float for each page that the lines need; the notes stand below the last."""
    if any(table.supervised):
        first, last = _span(table.supervised)
        flags = tuple(first <= place <= last for place in range(len(table.columns)))
        table = replace(table, supervised=flags)
    pages = _pages(table)
    for number, lines in enumerate(pages):
        # below the headings there is a rule already
        ruled = [
            replace(line, starts_block=place > 0 and line.starts_block)
            for place, line in enumerate(lines)
        ]
        page = replace(table, lines=tuple(ruled))
        is_first = number == 0
        caption = table.caption if is_first else f"{table.title} {CONTINUED}.".lstrip()
        yield "\n".join(
            [
                r"\begin{table}",
                r"\centering\footnotesize\setlength{\tabcolsep}{3pt}",
                *([] if is_first else [r"\addtocounter{table}{-1}"]),
                *([rf"\caption{{{for_latex(caption)}}}"] if caption else []),
                "\n\n".join(_tabular(page.only(places)) for places in _page_runs(page)),
                r"\end{table}",
                *(f"% {printable(note)}" for note in table.all_notes if lines is pages[-1]),
            ]
        )


def _pages(table: Table) -> list[list[Line]]:
    """Cut the lines between blocks into runs that fit the height of a page."""
    most = PAGE_LINES // len(_page_runs(table)) - HEAD_LINES
    pages: list[list[Line]] = [[]]
    for block in _blocks(table):
        if pages[-1] and len(pages[-1]) + len(block) > most:
            pages.append([])
        pages[-1] += block
    return pages


def _blocks(table: Table) -> Iterator[list[Line]]:
    """Yield lines that stay together: from a rule or a heading to the next, or each alone."""
    starts = [line.starts_block or _is_heading(line, table) for line in table.lines]
    block: list[Line] = []
    for line, is_start in zip(table.lines, starts, strict=True):
        if block and (not any(starts) or (is_start and not _is_heading(block[-1], table))):
            yield block
            block = []
        block.append(line)
    yield block


def _page_runs(table: Table) -> list[list[int]]:
    """Cut the columns of numbers into runs that fit the page, the labels before each."""
    if table.is_text:
        return [list(range(len(table.columns)))]
    rows = [(line.label, *line.cells) for line in table.lines if line.cells]
    label, *sizes = [
        max(len(cell.strip()) for cell in column) * LETTER + COLUMN_GAP
        for column in zip((table.corner, *table.columns), *rows, strict=True)
    ]
    # a label that takes the page by itself leaves no table that fits
    return _runs(sizes, PAGE_WIDTH - min(label, PAGE_WIDTH / 2))


def _tabular(table: Table) -> str:
    n_columns = 1 + len(table.columns)
    lines = [
        rf"\begin{{tabular}}{{l{('l' if table.is_text else 'r') * len(table.columns)}}}",
        r"\toprule",
    ]
    if any(table.supervised):
        first, last = _span((False, *table.supervised))
        spans = ["" for _ in range(first)]
        spans += [rf"\multicolumn{{{last - first + 1}}}{{c}}{{Supervised}}"]
        spans += ["" for _ in range(n_columns - last - 1)]
        lines.append(" & ".join(spans) + rf" \\ \cmidrule(lr){{{first + 1}-{last + 1}}}")
    lines += [_latex_row((table.corner, *table.columns)), r"\midrule"]
    for line in table.lines:
        lines += [r"\midrule"] if line.starts_block else []
        if _is_heading(line, table):
            heading = for_latex(line.label.strip())
            lines.append(rf"\multicolumn{{{n_columns}}}{{l}}{{\emph{{{heading}}}}} \\")
        else:
            lines.append(_latex_row((line.label, *line.cells)))
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def _is_heading(line: Line, table: Table) -> bool:
    """Whether a line is a heading; a word alone in a table of words is none."""
    return line.is_heading and not table.is_text


def _latex_row(cells: Sequence[str]) -> str:
    return " & ".join(_latex_cell(cell.strip()) for cell in cells) + r" \\"


def _latex_cell(cell: str) -> str:
    """Return a cell for LaTeX: numbers with a minus instead of a hyphen, and powers of ten."""
    if not _NUMBERS.fullmatch(cell):
        return for_latex(cell)
    text = for_latex(re.sub("(?<!e)-", "−", cell))
    return re.sub(r"e\+?(-?)0*(\d+)", r"$\\cdot10^{\1\2}$", text)
