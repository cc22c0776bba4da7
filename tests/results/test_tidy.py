"""Results in a notebook: a line, a table, every format of the command line, a picture."""

import re
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from repalign import InputError, compare, deconfound, disentangle
from repalign.cli.formats import FORMATS, render
from repalign.deconfounding.settings import BatchSettings
from repalign.disentanglement.settings import FactorSettings
from repalign.results.tidy import TidyResult

HOSTILE = "<script>alert(1)</script>\x1b[2J"
STUDIES = ("compare", "disentangle", "deconfound")


@cache
def result_of(study: str) -> TidyResult:
    rng = np.random.default_rng(0)
    x = rng.laplace(size=(60, 3))
    if study == "compare":
        asked = {"maps": "mean,rigid", "measures": "linear-cka", "quick": True}
        return compare(x, x + 1, names=(HOSTILE, "B"), **asked)
    if study == "disentangle":
        settings = FactorSettings(scores=("mcc", "infomec"), n_halves=0, n_null=0)
        return disentangle(x, {HOSTILE: x[:, 0] > 0}, settings=settings)
    columns = {HOSTILE: (x[:, 0] > 0).astype(int), "batch": np.arange(60) % 3}
    settings = BatchSettings(n_folds=2, rounds=3, judge_batches=False, top_percent=())
    return deconfound(x, columns, labels=[HOSTILE], batch="batch", settings=settings)


class Reader(HTMLParser):
    """Collects the elements of a page, and sees that each is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


each_study = pytest.mark.parametrize("study", STUDIES)


@each_study
def test_a_result_is_one_short_line(study: str) -> None:
    text = repr(result_of(study))
    assert len(text) < 150
    assert text.isprintable()
    assert text.startswith(f"<{type(result_of(study)).__name__} of ")


def test_the_line_says_what_was_compared() -> None:
    x = np.random.default_rng(0).laplace(size=(60, 3))
    two = compare(x, x, x, quick=True, maps="rigid")
    assert repr(two).startswith("<CompareResult of 3 pairs: 3 records, ")


@each_study
def test_a_notebook_shows_a_table_in_which_nothing_acts(study: str) -> None:
    page = result_of(study)._repr_html_()
    reader = Reader()
    reader.feed(page)
    assert not reader.open
    assert {"table", "th", "td"} <= reader.seen <= {
        "div", "table", "thead", "tbody", "tr", "th", "td", "p", "small", "ul", "li", "strong"
    }  # fmt: skip
    assert "\x1b" not in page
    for warning in result_of(study).warnings:
        assert warning.replace("\x1b", "\\x1b") in reader.text


def test_names_from_files_are_shown_and_not_run() -> None:
    page = result_of("compare")._repr_html_()
    assert "&lt;script&gt;alert(1)&lt;/script&gt;\\x1b[2J" in page


def test_many_pairs_are_a_matrix_in_a_notebook() -> None:
    rng = np.random.default_rng(0)
    many = compare(*rng.standard_normal((6, 40, 2)), quick=True, maps="rigid")
    page = many._repr_html_()
    assert len(many.pairs) == 15
    assert page.count("<tr>") == 1 + 5  # the last is no source
    assert "<p><strong>Before " in page
    assert len(many.warnings) == 15
    assert page.count("<li>") == 2  # alike warnings are one, and a note


def test_many_pairs_are_a_matrix_with_a_short_caption_in_every_table() -> None:
    rng = np.random.default_rng(0)
    many = compare(*rng.standard_normal((6, 40, 2)), quick=True, maps="rigid")
    few = compare(*rng.standard_normal((5, 40, 2)), quick=True, maps="rigid")
    for form in ("table", "markdown", "latex"):
        assert "array 5" in many.table(form)
        assert len(many.table(form).splitlines()) < 30 < len(few.table(form).splitlines())
    (caption,) = re.findall(r"\\caption\{(.*)\}", many.table("latex"))
    assert len(caption) < 100


@each_study
def test_every_format_of_the_command_line_is_a_table(study: str) -> None:
    result = result_of(study)
    shown = result.shown()
    for form in FORMATS.values():
        if form.of_pairs and study != "compare":
            with pytest.raises(InputError, match="expected one of"):
                result.table(form.name)
        elif not form.name.endswith("table"):
            assert result.table(form.name) == render(shown, form.name)
    assert str(result) == result.table() == result.table("table")
    assert r"\toprule" in result.table("latex")
    assert "\x1b" not in result.table()


@each_study
def test_warnings_belong_to_every_table_and_not_to_data(study: str) -> None:
    result = replace(result_of(study), **_with_warning(study, "beware"))
    shown = result.shown()
    for form in ("table", "markdown", "latex"):
        assert "beware" in result.table(form)
        assert "beware" in render(shown, form)
    assert "beware" not in result.table("csv")
    assert "beware" not in render(shown, "table", on_terminal=True)  # it is on stderr there
    assert "beware" in str(result)
    comments = [line for line in result.table("latex").splitlines() if "beware" in line]
    assert all(line.startswith("%") for line in comments)


def _with_warning(study: str, text: str) -> dict[str, object]:
    if study != "compare":
        return {"warnings": (text,)}
    return {"pairs": tuple(replace(pair, warnings=(text,)) for pair in result_of(study).pairs)}


@pytest.mark.parametrize("form", ["tex", None, ["latex"]])
def test_another_format_is_refused_in_a_line(form: object) -> None:
    with pytest.raises(InputError, match=r"table: got .* csv, json"):
        result_of("compare").table(form)
    with pytest.raises(InputError, match="table: got 'matrix'"):
        result_of("disentangle").table("matrix")


def test_a_picture_is_written_where_it_is_told(tmp_path: Path) -> None:
    for study in ("compare", "disentangle"):
        path = tmp_path / f"{study}.png"
        assert result_of(study).plot(path).axes
        assert path.read_bytes().startswith(b"\x89PNG")
    result_of("compare").plot(str(tmp_path / "x.svg"), show="rigid")
    assert "<svg" in (tmp_path / "x.svg").read_text()


@pytest.mark.parametrize("path", ["x.txt", "rigid", "missing/x.png", 3])
def test_a_picture_that_cannot_be_written_is_refused_in_a_line(
    path: object, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as failure:
        result_of("compare").plot(path)
    assert "\n" not in str(failure.value)
    assert not list(tmp_path.iterdir())
