"""Options from a file: the same as on the line, which wins."""

import json
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from repalign.cli.app import app

CONFIG = """
stores = ["a.npy", "b.npy"]
maps = ["mean", "rigid"]
split = 0.5
null = 0
halves = 0
both = true
format = "csv"
fail-above = {rigid = 5}
[name]
first = "a.npy"
"""
WORDS = ["a.npy", "b.npy", "--maps", "mean,rigid", "--split", "0.5", "--null", "0", "--halves", "0"]
WORDS += ["--both", "--format", "csv", "--fail-above", "rigid=5", "--name", "first=a.npy"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    x = np.random.default_rng(0).laplace(size=(100, 3))
    for place, name in enumerate("abc"):
        np.save(f"{name}.npy", x + place)
    Path("study.toml").write_text(CONFIG)
    return tmp_path


def run(*arguments: str):
    return CliRunner().invoke(app, ["compare", *arguments])


def test_a_file_says_what_the_line_says(folder: Path) -> None:
    told, written = run("--config", "study.toml"), run(*WORDS)
    assert told.exit_code == written.exit_code == 0, told.stderr
    assert told.stdout == written.stdout
    assert "2 gates" in told.stderr


def test_the_line_wins(folder: Path) -> None:
    more = run("--config", "study.toml", "--maps", "linear", "--fail-above", "linear=5")
    assert more.exit_code == 0, more.stderr
    assert ",linear," in more.stdout
    assert ",rigid," not in more.stdout
    others = run("b.npy", "c.npy", "--config", "study.toml", "--name", "third=c.npy")
    assert "third" in others.stdout
    assert "first" not in others.stdout


def test_the_record_of_a_run_needs_the_file_no_more(folder: Path) -> None:
    assert run("--config", "study.toml", "--format", "json", "-o", "r.json").exit_code == 0
    Path("study.toml").unlink()
    again = CliRunner().invoke(app, ["rerun", "r.json", "--check", "--format", "csv"])
    assert again.exit_code == 0, again.stderr
    assert again.stdout == run(*WORDS).stdout


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("nope = 1", "nope: "),
        ("mesures = 'all'", "measures"),
        ("null = true", "null: "),
        ("both = 'yes'", "'yes'"),
        ("maps = [true]", "maps: "),
        ("maps = [[1]]", "maps: "),
        ("split = 2020-01-01", "split: "),
        ("split = 'x'", "--split"),
        ("maps =", "TOML"),
        ("a" + ".a" * 200_000 + " = 1", "dots"),
        ("maps = {" + ".".join(["'a'"] * 200_000) + " = 1}", "dots"),
        ("maps = 'nope'\nstores = ['a.npy', 'b.npy']", "'nope'"),
    ],
    ids=lambda text: text[:20],
)
def test_what_is_wrong_is_told(folder: Path, text: str, told: str) -> None:
    Path("bad.toml").write_text(text)
    failed = run("--config", "bad.toml", "a.npy", "b.npy")
    assert failed.exit_code in (1, 2)
    assert told in " ".join(failed.stderr.replace("│", "").split())


COMMANDS = {
    name: command
    for name, command in typer.main.get_command(app).commands.items()
    if any(each.name == "config" for each in command.params)
}


def is_argument(parameter: Any) -> bool:
    return parameter.param_type_name == "argument"


def name_of(parameter: Any) -> str:
    longest = max(parameter.opts, key=len)
    return parameter.name if is_argument(parameter) else longest.removeprefix("--")


def given_to(parameter: Any, folder: Path) -> tuple[Any, list[str]]:
    """Return a value that an option may have, and the words that say it on the line."""
    told, flag = parameter.type_descriptor, max(parameter.opts, key=len)
    kind = told.annotation
    if getattr(parameter, "is_flag", False):
        return True, [flag]
    value: Any = {int: 3, float: 0.25}.get(kind, "x")
    if kind is int and getattr(parameter, "min", None):
        value = max(value, int(parameter.min))
    if get_origin(kind) is Literal:
        value = get_args(kind)[0]
    elif kind is Path:
        value = str(folder / ("there" if told.parameter_info.exists else "new"))
    return value, [str(value)] if is_argument(parameter) else [flag, str(value)]


def test_the_long_commands_take_a_file() -> None:
    assert {"compare", "extract", "disentangle", "deconfound", "reproduce"} <= set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_can_stand_in_the_file(name: str, tmp_path: Path) -> None:
    command, config = COMMANDS[name], tmp_path / "options.toml"
    (tmp_path / "there").write_text("a")
    needed = [each for each in command.params if each.required]
    others = [each for each in command.params if name_of(each) not in ("help", "config")]
    for parameter in others:
        if getattr(parameter, "hidden", False):
            continue
        given = {name_of(each): given_to(each, tmp_path) for each in (parameter, *needed)}
        config.write_text("".join(f"{key} = {json.dumps(v)}\n" for key, (v, _) in given.items()))
        typed = command.make_context(name, [word for _, told in given.values() for word in told])
        read = command.make_context(name, ["--config", str(config)])
        assert read.params | {"config": None} == typed.params | {"config": None}
        assert {read.get_parameter_source(each.name).name for each in (parameter, *needed)} == {
            "DEFAULT_MAP"
        }
