import csv
import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repalign.printable import (
    byte_size,
    for_csv,
    for_figure,
    for_html,
    for_latex,
    for_markdown,
    from_csv,
    printable,
)

ANY_TEXT = st.text(st.characters(), max_size=30)  # with surrogates and controls


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain name.h5", "plain name.h5"),
        ("Größe × → 日本 \u00a0é", "Größe × → 日本 \u00a0é"),
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),  # OSC
        ("\x1b[2J", r"\x1b[2J"),  # CSI
        ("\x9b31m", r"\x9b31m"),  # C1
        ("a\u202egpj.b", r"a\u202egpj.b"),  # bidi
        ("\u2066x\u2069", r"\u2066x\u2069"),
        ("two\nlines\r\tx\u2028y", r"two\nlines\r\tx\u2028y"),
        ("\udcff\ud800", r"\udcff\ud800"),
        ("\U000e0041", r"\U000e0041"),  # a tag: not seen at all
        ("👩\u200d🔬", "👩\u200d🔬"),
    ],
)
def test_what_acts_is_shown_as_its_number(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(ANY_TEXT)
def test_every_text_becomes_one_line_that_can_be_written(text: str) -> None:
    for make in (printable, for_csv, for_markdown, for_latex, for_html, for_figure):
        made = make(text)
        assert made.encode("utf-8").decode("utf-8") == made
        assert len(made.splitlines()) <= 1
        assert not re.search(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", made)


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("=HYPERLINK(1)", "'=HYPERLINK(1)"),
        ("+1+1", "'+1+1"),
        ("-x", "'-x"),
        ("@sum", "'@sum"),
        ("'=x", "''=x"),
        ("-3", "-3"),
        ("+1.5e-3", "+1.5e-3"),
        ("\t=x", r"\t=x"),
        ("a=b", "a=b"),
        ("it's", "it's"),
    ],
)
def test_a_spreadsheet_finds_no_formula(text: str, cell: str) -> None:
    assert for_csv(text) == cell


@given(ANY_TEXT)
def test_a_cell_is_read_back_as_what_it_was(text: str) -> None:
    assert from_csv(for_csv(text)) == printable(text)
    line = io.StringIO()
    csv.writer(line).writerow(["x", for_csv(text)])
    assert next(csv.reader([line.getvalue()]))[1] == for_csv(text)


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("a|b", r"a\|b"),
        ("`x`", r"\`x\`"),
        ("[click](http://x)", r"\[click\](http:\//x)"),
        ("<img>", r"\<img\>"),
        ("**b** _i_ p_value", r"\*\*b\*\* \_i\_ p_value"),
        ("![x](y)", r"\!\[x\](y)"),
        (r"a\|b", r"a\\\|b"),
    ],
)
def test_markdown_finds_no_mark(text: str, made: str) -> None:
    assert for_markdown(text) == made


def test_latex_sets_every_letter_as_itself() -> None:
    assert for_latex(r"\input{x} $y^2$ ~ a_b 5% & #") == (
        r"\textbackslash{}input\{x\} \$y\textasciicircum{}2\$ \textasciitilde{} a\_b 5\% \& \#"
    )
    assert for_latex("--halves --- 1–2") == r"-{}-halves -{}-{}- 1--2"
    assert for_latex("a → b ↓ ±") == r"a $\to$ b $\downarrow$ $\pm$"
    assert for_latex("RSA ρ, Δσ ≤ 1") == r"RSA $\rho$, $\Delta$$\sigma$ $\leq$ 1"
    assert for_latex("*x") == "{}*x"


@pytest.mark.parametrize(
    ("n_bytes", "text", "up"),
    [
        (0, "0 bytes", "0 bytes"),
        (1023, "1023 bytes", "1023 bytes"),
        (1024, "1 KiB", "1 KiB"),
        (2**31, "2 GiB", "2 GiB"),
        (2**31 + 1, "2 GiB", "2.01 GiB"),
        (1.5e6, "1.43 MiB", "1.44 MiB"),
        (2**70 + 1, "1024 EiB", "1024 EiB"),
    ],
)
def test_sizes_have_units_and_are_rounded_up_where_they_are_needed(n_bytes, text, up) -> None:
    assert byte_size(n_bytes) == text
    assert byte_size(n_bytes, up=True) == up


def test_html_and_figures() -> None:
    assert for_html("<b a='\"'>\x1b") == r"&lt;b a=&#x27;&quot;&#x27;&gt;\x1b"
    assert for_figure(r"$\frac$") == r"\$\frac\$"
