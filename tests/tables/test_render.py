"""Tables in Markdown and LaTeX: what a page holds, and what stands where."""

import re

import matplotlib
import numpy as np
import pytest
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath

from repalign.comparison.results import CompareResult
from repalign.comparison.run import compare
from repalign.comparison.settings import CompareSettings, preset
from repalign.tables.render import PAGE_WIDTH, as_latex, as_markdown
from repalign.tables.table import (
    Line,
    Table,
    number,
    short_number,
    short_percent,
    text_cells,
)

# Computer Modern as matplotlib has it, at the size of footnotes; the cut for that size is wider.
FONT = FontProperties(fname=f"{matplotlib.get_data_path()}/fonts/ttf/cmr10.ttf")
SIZE, WIDER, GAP = 8, 1.0625, 6


@pytest.fixture(scope="module")
def audit() -> CompareResult:
    rng = np.random.default_rng(0)
    x = rng.laplace(size=(240, 3)) * [1, 2, 3]
    y = x @ np.linalg.qr(rng.standard_normal((3, 3)))[0] + 0.1 * rng.standard_normal(x.shape)
    cheap = {"n_null": 9, "n_rotations": 2, "starts": 1, "n_halves": 4}
    return compare(x, y, settings=preset("audit", **cheap))


def width_of(cell: str) -> float:
    plain = cell.strip().replace("--", "x").replace("\\%", "%")
    plain = re.sub(r"\$[^$]*\$", "M", plain)
    return WIDER * TextPath((0, 0), plain, size=SIZE, prop=FONT).get_extents().width if plain else 0


def test_the_audit_table_fits_the_text_of_a_page(audit: CompareResult) -> None:
    text = as_latex([audit.error_table()])
    tables = re.findall(r"\\begin\{tabular\}.*?\\end\{tabular\}", text, re.DOTALL)
    assert len(tables) == 3
    shown = ""
    for table in tables:
        rows = [line[:-3].split(" & ") for line in table.splitlines() if line.endswith(r" \\")]
        rows = [row for row in rows if "multicolumn" not in row[0]]
        assert len({len(row) for row in rows}) == 1
        widths = [max(map(width_of, column)) + GAP for column in zip(*rows, strict=True)]
        assert sum(widths) <= PAGE_WIDTH
        shown += table
    for column in audit.error_table().columns:
        assert column.split(" ")[0].replace("%", r"\%") in shown


def test_pairs_are_headings_and_counts_stand_in_the_caption(audit: CompareResult) -> None:
    table = audit.error_table()
    assert table.lines[0].label == "array 1 → array 2"
    markdown = as_markdown([table])
    assert "| array 1 → array 2 |" in markdown
    assert "\n\n240 rows in-sample, 240 rows held-out; 3 → 3 columns. " in markdown
    latex = as_latex([table])
    assert r"\emph{array 1 $\to$ array 2}" in latex
    assert r"\caption{240 rows in-sample" in latex
    assert latex.count(r"\begin{table}") == latex.count(r"\end{table}") == 1


def test_many_pairs_are_cut_into_tables_that_fit_the_height_of_a_page() -> None:
    lines = [
        line
        for pair in range(9)
        for line in (
            Line(f"pair {pair}", starts_block=pair > 0),
            *(Line(f"line {number}", (".5",)) for number in range(8)),
        )
    ]
    whole = Table(("Rigid",), tuple(lines), "Errors", ("n",), legend=("told",))
    tables = as_latex([whole]).split(r"\begin{table}")[1:]
    assert len(tables) == 3
    assert [table.count(r"\emph") for table in tables] == [4, 4, 1]
    assert [table.count("line 7") for table in tables] == [4, 4, 1]
    assert [table.count(r"\midrule") for table in tables] == [4, 4, 1]
    assert r"\caption{Errors. told.}" in tables[0]
    for table in tables[1:]:
        assert "\\addtocounter{table}{-1}\n\\caption{Errors (continued).}" in table
    assert ["% n" in table for table in tables] == [False, False, True]


def test_lines_without_blocks_are_cut_anywhere_and_a_high_block_nowhere() -> None:
    lines = tuple(Line(str(number), ("1",)) for number in range(100))
    assert as_latex([Table(("x",), lines)]).count(r"\begin{table}") == 3
    block = (Line("pair"), *lines)
    assert as_latex([Table(("x",), block)]).count(r"\begin{table}") == 1
    assert as_latex([Table(("x",), ())]).count(r"\begin{table}") == 1


def test_the_legend_explains_what_is_shown_and_nothing_else() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 100, 3))
    plain = CompareSettings(maps=("mean", "rigid"), held_out=0, n_null=0, n_halves=0)
    assert compare(x, y, settings=plain).error_table().legend == (
        "error: mean ‖prediction − target‖ / diameter of all target rows, ↓ closer",
    )
    held = CompareSettings(maps=("mean", "rigid"), n_null=0, n_halves=0)
    legend = " ".join(compare(x, y, settings=held).error_table().legend)
    assert "in-sample, of" in legend or "held-out, of" in legend or "95 %" not in legend
    assert "shuffled" not in legend
    assert "eff." not in legend


def test_a_heading_spans_the_table_and_a_span_is_cut_with_its_columns() -> None:
    names = tuple(f"a long heading {place}" for place in range(6))
    lines = (Line("one"), Line("x", tuple("123456")))
    flags = (False, False, True, True, True, False)
    text = as_latex([Table(names, lines, supervised=flags)])
    assert text.count(r"\begin{tabular}") == 2
    spans = [int(found) for found in re.findall(r"\\multicolumn\{(\d)\}\{c\}\{Supervised\}", text)]
    assert sum(spans) == 3


def test_nothing_has_no_minus() -> None:
    assert short_percent(-0.0004) == "0"
    assert short_percent(-0.14) == "-14"
    assert short_number(-0.0001) == ".000"
    assert short_number(-0.5) == "-0.500"
    assert number(-0.0004) == ".000"
    assert number(-0.5) == "-.500"
    assert text_cells({"x": -0.0, "y": -1e-9}, ["x", "y"]) == ["0", "-1e-09"]


def test_all_measures_of_a_pair_are_tables_of_latex() -> None:
    x, y = np.random.default_rng(0).standard_normal((2, 40, 3))
    text = compare(
        x, y, settings=CompareSettings(maps=(), measures=("all",), n_null=0, n_halves=0)
    ).table("latex")
    tables = text.split(r"\begin{tabular}")[1:]
    assert len(tables) > 1
    assert all(r"\emph{array 1 $\to$ array 2}" in table for table in tables)
    assert r"RSA $\rho$" in text


def test_negative_numbers_have_a_minus_and_names_keep_their_hyphen() -> None:
    cells = ("block-1", "-.05", "-67 ± 2", "-4 to -1", "-.1–.2", "1e-08", "-2.4e+29", "n/a")
    table = Table(tuple("bcdefgh"), (Line(cells[0], cells[1:]),), corner="a")
    row = next(line for line in as_latex([table]).splitlines() if line.startswith("block"))
    assert row.removesuffix(r" \\").split(" & ") == [
        "block-1",
        "$-$.05",
        r"$-$67 $\pm$ 2",
        "$-$4 to $-$1",
        "$-$.1--.2",
        r"1$\cdot10^{-8}$",
        r"$-$2.4$\cdot10^{29}$",
        "n/a",
    ]


@pytest.mark.parametrize("name", ["[2em]", "*", "*[x]", "  [a"])
def test_no_name_is_the_argument_of_a_line_break_or_rule(name: str) -> None:
    lines = (Line("a", ("1",)), Line(name, ("2",), starts_block=True), Line(name, ("3",)))
    text = as_latex([Table(("x",), lines, corner=name)])
    assert not re.search(r"(\\\\|\\toprule|\\midrule)\s*[*\[]", text)
    assert name.strip() in text
