from pathlib import Path

import pytest

from repalign import InputError
from repalign.cli import output


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


def test_what_cannot_be_encoded_is_written_as_its_number(tmp_path: Path) -> None:
    output.emit("\ud800", tmp_path / "x.csv")
    assert (tmp_path / "x.csv").read_text() == "\\ud800\n"


def test_a_figure_of_an_unknown_kind_is_refused(tmp_path: Path) -> None:
    figure = pytest.importorskip("matplotlib.figure").Figure()
    with pytest.raises(InputError, match=r"--plot .*x\.xls: no figure can be written"):
        output.save_figure(figure, tmp_path / "x.xls")
    output.save_figure(figure, tmp_path / "x.png")
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
