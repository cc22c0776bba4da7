"""Options from a file: the same as on the line, which wins."""

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from repalign.cli.app import app

CONFIG = """
stores = ["a.npy", "b.npy"]
maps = ["mean", "rigid"]
split = 0.5
null = 0
refits = 0
both = true
format = "csv"
fail-above = {rigid = 5}
[name]
first = "a.npy"
"""
WORDS = ["a.npy", "b.npy", "--maps", "mean,rigid", "--split", "0.5", "--null", "0", "--refits", "0"]
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
    assert "all 2 gates hold" in told.stderr


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
        ("nope = 1", "nope: there is no such option"),
        ("maps = [[1]]", "maps: got a list of lists"),
        ("split = 2020-01-01", "expected a text, a number"),
        ("split = 'x'", "unable to parse string as a number"),
        ("maps =", "is no TOML"),
        ("maps = 'nope'\nstores = ['a.npy', 'b.npy']", "maps: got nope"),
    ],
)
def test_what_is_wrong_is_told(folder: Path, text: str, told: str) -> None:
    Path("bad.toml").write_text(text)
    failed = run("--config", "bad.toml", "a.npy", "b.npy")
    assert failed.exit_code in (1, 2)
    assert told in " ".join(failed.stderr.replace("│", "").split())
