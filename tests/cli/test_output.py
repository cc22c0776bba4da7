import json
import math
from pathlib import Path

import pytest

from repalign import InputError
from repalign.cli import output

RECORDS = [
    {"map": "rigid", "error": 0.1234567890123, "p_value": None, "converged": True},
    {"map": "ica & co_1", "error": math.nan, "p_value": 0.5, "converged": False},
]


def test_csv_has_full_precision_and_empty_cells_where_undefined() -> None:
    assert output.records_as_csv(RECORDS) == (
        "map,error,p_value,converged\nrigid,0.1234567890123,,true\nica & co_1,,0.5,false\n"
    )


def test_json_has_null_where_undefined_and_every_parser_reads_it() -> None:
    text = output.render_records(RECORDS, "json")
    assert json.loads(text)[1] == {
        "map": "ica & co_1",
        "error": None,
        "p_value": 0.5,
        "converged": False,
    }


def test_markdown_has_a_head_a_rule_and_a_line_per_record() -> None:
    lines = output.render_records(RECORDS, "markdown").splitlines()
    assert lines[0] == "| map | error | p_value | converged |"
    assert lines[2] == "| rigid | 0.1235 |  | true |"
    assert len(lines) == 4


def test_latex_escapes_what_latex_would_read() -> None:
    assert r"ica \& co\_1" in output.render_records(RECORDS, "latex")


def test_a_table_shows_brackets_as_they_are() -> None:
    assert "repalign[plot]" in output.records_as_table([{"advice": "repalign[plot]"}])


@pytest.mark.parametrize(
    ("asked", "name", "chosen"),
    [
        ("json", "x.csv", "json"),
        (None, "x.csv", "csv"),
        (None, "x.MD", "markdown"),
        (None, "x.tex", "latex"),
        (None, None, "csv"),
    ],
)
def test_the_format_is_the_one_asked_for_or_that_of_the_file(asked, name, chosen) -> None:
    assert output.choose_format(asked, Path(name) if name else None) == chosen


def test_an_unknown_ending_is_refused() -> None:
    with pytest.raises(InputError, match=r"no format belongs to the ending '\.xls'"):
        output.choose_format(None, Path("x.xls"))


def test_a_file_appears_whole_and_nothing_else_stays(tmp_path: Path) -> None:
    output.emit("a,b\n1,2", tmp_path / "x.csv")
    assert (tmp_path / "x.csv").read_text() == "a,b\n1,2\n"
    assert [path.name for path in tmp_path.iterdir()] == ["x.csv"]


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(UnicodeEncodeError):
        output.emit("\ud800", tmp_path / "x.csv")
    assert list(tmp_path.iterdir()) == []
