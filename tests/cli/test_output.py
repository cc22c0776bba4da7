from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import typer
from matplotlib.figure import Figure
from typer.testing import CliRunner

from repalign import InputError
from repalign.cli import output
from repalign.cli.app import app
from repalign.cli.formats import render
from repalign.comparison.run import compare
from repalign.comparison.settings import CompareSettings
from repalign.results.saved_maps import save_result_maps
from repalign.store import write_store
from repalign.tables.formats import shown_records


@pytest.mark.parametrize(
    ("asked", "name", "chosen"),
    [
        ("json", "x.dat", "json"),
        ("csv", "x.txt", "csv"),
        (None, "x.csv", "csv"),
        (None, "x.MD", "markdown"),
        (None, "x.tex", "latex"),
        (None, None, "csv"),
        ("matrix", None, "matrix"),
        ("matrix", "x.csv", "matrix"),
        ("matrix", "x.txt", "matrix-table"),
        ("matrix", "x.md", "matrix-markdown"),
        ("matrix", "x.tex", "matrix-latex"),
    ],
)
def test_the_format_is_the_one_asked_for_or_that_of_the_file(asked, name, chosen) -> None:
    assert output.choose_format(asked, Path(name) if name else None) == chosen


@pytest.mark.parametrize(
    ("asked", "name"),
    [("table", "x.json"), ("json", "x.csv"), ("matrix-table", "x.tex"), ("matrix", "x.json")],
)
def test_a_format_that_contradicts_the_ending_is_wrong_usage(
    asked: str, name: str, tmp_path: Path
) -> None:
    np.save(tmp_path / "a.npy", np.eye(4))
    line = ["compare", str(tmp_path / "a.npy"), str(tmp_path / "a.npy"), "-f", asked]
    ran = CliRunner().invoke(app, [*line, "-o", str(tmp_path / name)])
    message = "".join(ran.stderr.replace("│", "").split())
    assert ran.exit_code == 2
    assert f"--format{asked}" in message
    assert name in message
    assert not (tmp_path / name).exists()


def test_a_table_that_a_terminal_writes_into_a_file_has_no_colours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    output.show(shown_records([{"name": "a"}]), None, tmp_path / "x.txt")
    assert "\x1b" not in (tmp_path / "x.txt").read_text()


def test_an_unknown_ending_is_refused() -> None:
    with pytest.raises(InputError, match=r"\.xls"):
        output.choose_format(None, Path("x.xls"))


def test_a_file_appears_whole_and_nothing_else_stays(tmp_path: Path) -> None:
    output.emit("a,b\n1,2", tmp_path / "x.csv")
    assert (tmp_path / "x.csv").read_text() == "a,b\n1,2\n"
    assert [path.name for path in tmp_path.iterdir()] == ["x.csv"]


def test_what_cannot_be_encoded_is_written_as_its_number(tmp_path: Path) -> None:
    output.emit("\ud800", tmp_path / "x.csv")
    assert (tmp_path / "x.csv").read_text() == "\\ud800\n"


def test_a_figure_of_an_unknown_kind_is_refused(tmp_path: Path) -> None:
    figure = Figure()
    with pytest.raises(InputError, match=r"--plot .*x\.xls"):
        output.save_figure(figure, tmp_path / "x.xls")
    output.save_figure(figure, tmp_path / "x.png")
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


# Commands whose result a file can take, each with words that make it soon.
SOON: dict[str, list[str]] = {
    "cache clear": [],
    "cache info": [],
    "doctor": [],
    "maps info": ["rigid.safetensors"],
    "models": [],
    "models show": ["vit"],
    "store head": ["a.npy"],
    "store info": ["a.npy"],
    "store verify": ["a.h5"],
    "zoo list": [],
}
# These say it of every file that they write, in tests of their own.
STUDIES = {"compare", "deconfound", "demo", "disentangle", "rerun"}


def with_output(group: Any, before: str = "") -> Iterator[str]:
    """Yield the commands that take --output for a result."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            if any(parameter.name == "to" for parameter in command.params):
                yield f"{before}{name}"
            yield from with_output(command, f"{before}{name} ")
        elif any(parameter.name == "to" and "-o" in parameter.opts for parameter in command.params):
            yield f"{before}{name}"


def test_every_command_that_writes_its_result_says_where(
    tiny: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REPALIGN_CACHE", str(tmp_path / "cache"))
    rows = np.random.default_rng(0).normal(size=(30, 3))
    np.save("a.npy", rows)
    write_store(Path("a.h5"), {"x": rows})
    plain = CompareSettings(maps=("rigid",), held_out=0, n_null=0, n_rotations=0, n_halves=0)
    (saved,) = save_result_maps(compare("a.npy", "a.h5", settings=plain), tmp_path / "maps")
    saved.rename("rigid.safetensors")
    tiny.save_timm(tmp_path / "vit", "vit")
    # whose only result is the file
    written = {"apply", "report", "store pack", "store import", "store export"}
    assert set(with_output(typer.main.get_command(app))) == set(SOON) | STUDIES | written
    for words, arguments in SOON.items():
        ran = CliRunner().invoke(app, [*words.split(), *arguments, "-o", "out.json"])
        assert ran.exit_code == 0, (words, ran.output)
        assert "out.json" in ran.stderr, words
        assert ran.stdout == ""
        Path("out.json").unlink()


@pytest.mark.parametrize(("columns", "is_turned"), [(60, True), (80, True), (160, False)])
def test_one_record_that_does_not_fit_has_a_line_a_field(
    columns: int, is_turned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("repalign.cli.tables._room", lambda: columns)
    record = {"store": "a.h5", "fingerprint": "0123456789abcdef" * 4, "seconds": 0.5}
    drawn = render(shown_records([record]), "table")
    assert ("field" in drawn) == is_turned
    assert record["fingerprint"] in drawn
    assert "field" not in render(shown_records([record, record]), "table")
