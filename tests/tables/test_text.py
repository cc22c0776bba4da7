import pytest

from repalign.tables.render import as_latex, as_markdown, as_text, text_lines
from repalign.tables.table import Line, Table, interval, number

TABLE = Table(
    ("raw", "pca+random rotation", "ica"),
    (
        Line("concentration ↑, top 25 % − rest"),
        Line("MIG ↑", (".100", ".200", "n/a")),
        Line("  95 %", (".050–.150", ".150–.250", "n/a"), is_detail=True),
    ),
    "scores of a.npy",
    ("100 rows",),
)


def test_text_has_headings_of_several_lines_above_their_columns() -> None:
    assert as_text([TABLE]).splitlines() == [
        "scores of a.npy",
        "                   pca+random",
        "              raw    rotation  ica",
        "concentration ↑, top 25 % − rest",
        "MIG ↑        .100        .200  n/a",
        "  95 %  .050–.150   .150–.250  n/a",
        "",
        "100 rows",
    ]


def test_columns_that_do_not_fit_come_below() -> None:
    lines = [line for line, _ in text_lines(TABLE, width=24)]
    assert max(map(len, lines)) <= 24
    assert [line for line in lines if line.startswith("MIG")] == [
        "MIG ↑        .100",
        "MIG ↑         .200  n/a",
    ]
    assert lines.count("concentration ↑, top 25") == 2


def test_markdown_and_latex_keep_the_titles_whole() -> None:
    assert "| MIG ↑ | .100 | .200 | n/a |" in as_markdown([TABLE])
    latex = as_latex([TABLE])
    assert r"pca+random rotation & ica \\" in latex
    assert r"\multicolumn{4}{l}{\emph{concentration $\uparrow$" in latex


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.12345, ".123"),
        (-0.05, "-.050"),
        (1.0, "1.00"),
        (-7.881, "-7.88"),
        (2.4e29, "2.4e+29"),
        (None, "n/a"),
    ],
)
def test_numbers_have_three_digits(value: float | None, text: str) -> None:
    assert number(value) == text


def test_an_interval_without_an_end_is_none() -> None:
    assert interval(0.1, 0.2) == ".100–.200"
    assert interval(0.1, None) == "n/a"
