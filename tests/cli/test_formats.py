"""One list of formats; options, endings and every result follow from it."""

import csv
import io
import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
import typer
from typer.testing import CliRunner

from repalign.cli import output
from repalign.cli.app import app
from repalign.cli.formats import (
    FORMATS,
    MATRIX,
    SUFFIXES,
    FormatName,
    MatrixFormatName,
    render,
)
from repalign.cli.options import MatrixFormatOption
from repalign.tables.formats import shown_records
from repalign.tables.matrix import make_matrix
from repalign.tables.records import as_csv, as_json

ROOT = Path(__file__).parents[2]
RECORDS = [
    {"map": "rigid", "error": 0.1234567890123, "p_value": None, "converged": True},
    {"map": "ica & co_1", "error": math.nan, "p_value": 0.5, "converged": False},
]
HOSTILE = "=\x1b]0;owned\x07|`x`<b>$y^2$\\input{z}\u202e\udcff\n% x"


def test_csv_has_full_precision_and_empty_cells_where_undefined() -> None:
    assert render(shown_records(RECORDS), "csv") == (
        "map,error,p_value,converged\nrigid,0.1234567890123,,true\nica & co_1,,0.5,false\n"
    )


def test_json_has_null_where_undefined_and_every_parser_reads_it() -> None:
    text = render(shown_records(RECORDS), "json")
    assert json.loads(text)[1] == {
        "map": "ica & co_1",
        "error": None,
        "p_value": 0.5,
        "converged": False,
    }


def test_markdown_has_a_head_a_rule_and_a_line_per_record() -> None:
    lines = render(shown_records(RECORDS), "markdown").splitlines()
    assert lines[0] == "| map | error | p_value | converged |"
    assert lines[2] == "| rigid | 0.1235 |  | true |"
    assert len(lines) == 4


def test_latex_escapes_what_latex_would_read() -> None:
    assert r"ica \& co\_1" in render(shown_records(RECORDS), "latex")


def test_a_table_shows_brackets_as_they_are() -> None:
    assert "repalign[plot]" in render(shown_records([{"advice": "repalign[plot]"}]), "table")


def hostile_matrix() -> str:
    names = {"source": HOSTILE, "target": f"b{HOSTILE}", "source_view": "", "target_view": ""}
    ends = {
        "ci_low": None,
        "ci_high": None,
        "error": 0.5,
        "n_rows": 60,
        "diameter": 1.0,
        "rms_radius": 1.0,
    }
    return make_matrix([names | ends | {"map": "rigid", "split": "in-sample"}])


@pytest.mark.parametrize("form", [name for name in FORMATS if MATRIX in name])
def test_no_matrix_passes_on_what_acts(form: str) -> None:
    shown = replace(shown_records([]), matrix=hostile_matrix)
    text = render(shown, form)
    assert ".5" in text
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\ud800-\udfff]", text)


def test_a_matrix_of_what_has_none_is_refused_before_anything_is_computed() -> None:
    refused = CliRunner().invoke(app, ["doctor", "--format", "matrix"])
    assert refused.exit_code == 2
    told = " ".join(refused.stderr.replace("│", "").split())
    assert re.search("'matrix'.* 'table', 'csv'", told)


@pytest.mark.parametrize("form", [form for form in FORMATS if "matrix" not in form])
def test_no_format_passes_on_what_acts(form: str) -> None:
    text = render(shown_records([{"name": HOSTILE, HOSTILE: 1}]), form)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\ud800-\udfff]", text)
    text.encode("utf-8")
    if form == "json":  # the one that is to be read back
        assert json.loads(text)[0]["name"] == HOSTILE
    if form == "csv":
        assert next(csv.reader(io.StringIO(text)))[1].startswith("'=")
    if form == "markdown":
        assert all(len(re.findall(r"(?<!\\)\|", line)) == 3 for line in text.splitlines())
    if form == "latex":
        assert not re.search(r"(?<!\\)[$%^]", text)


def test_markup_of_rich_in_a_name_is_shown_and_not_obeyed() -> None:
    assert "[/red][bold" in render(shown_records([{"[red]": "[/red][bold"}]), "table")


def test_json_shows_hidden_letters_as_numbers_and_others_as_they_are() -> None:
    assert as_json({"a": "é→日\x9b\u202e"}) == '{\n  "a": "é→日\\u009b\\u202e"\n}'


def test_numbers_of_csv_are_never_guarded() -> None:
    assert as_csv([{"x": -1.5, "y": -2, "z": "-w"}]) == "x,y,z\n-1.5,-2,'-w\n"


def test_the_option_its_endings_and_its_help_follow_from_the_list() -> None:
    assert get_args(MatrixFormatName) == tuple(FORMATS)
    assert {FORMATS[name].suffix for name in FORMATS} - {""} == set(SUFFIXES)
    told = next(
        each for each in get_args(MatrixFormatOption) if isinstance(each, typer.models.OptionInfo)
    )
    for each in FORMATS.values():
        assert each.told in (told.help or "")
        assert f"{each.name} ({each.suffix}" in each.told
        if not each.of_pairs:
            assert output.choose_format(None, Path(f"x{each.suffix}")) == each.name


def test_every_command_that_takes_a_format_takes_all_but_those_of_pairs_that_it_lacks() -> None:
    from repalign.cli.reference import commands

    found, plain = 0, tuple(name for name in FORMATS if "matrix" not in name)
    assert get_args(FormatName) == plain
    for words, command in commands():
        for parameter in command.params:
            if parameter.name == "form":
                found += 1
                choices = get_args(parameter.type_descriptor.annotation)
                has_pairs = words in ("repalign compare", "repalign rerun")
                assert choices == (tuple(FORMATS) if has_pairs else plain), words
    assert found > 8


def test_the_documentation_names_every_format() -> None:
    text = (ROOT / "docs" / "output.md").read_text()
    for each in FORMATS.values():
        assert f"`{each.name}`" in text
        assert not each.suffix or f"`{each.suffix}`" in text
