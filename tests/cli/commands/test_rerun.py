"""A comparison done again from its record: same bytes, and what has changed by name."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from repalign.cli.app import app
from repalign.tables.records import sealed

CHEAP = ["--maps", "mean,rigid,linear", "--null", "19", "--halves", "0"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    hidden = rng.laplace(size=(200, 4))
    for name in "abc":
        turned = hidden @ np.linalg.qr(rng.standard_normal((4, 4)))[0]
        np.save(f"{name}.npy", turned + 0.1 * rng.standard_normal((200, 4)))
    Path("ids.txt").write_text("".join(f"row {number}\n" for number in range(200)))
    Path("groups.txt").write_text("".join(f"{number // 4}\n" for number in range(200)))
    return tmp_path


def run(*arguments: str):
    return CliRunner().invoke(app, arguments)


def compared(*arguments: str) -> str:
    made = run("compare", *arguments)
    assert made.exit_code == 0, made.stderr
    return made.stdout


@pytest.mark.parametrize(
    "words",
    [
        ["a.npy", "b.npy", "c.npy", *CHEAP],
        ["b.npy", "c.npy", "--against", "a.npy", "--quick", "--halves", "0"],
        ["a.npy", "b.npy", "--ids", "ids.txt", "--groups", "groups.txt", *CHEAP, "--folds", "3"],
        ["a.npy", "b.npy", *CHEAP, "--both", "--split", "0.5", "--seed", "3"],
    ],
)
def test_the_same_command_gives_the_same_bytes(folder: Path, words: list[str]) -> None:
    csv = compared(*words)
    compared(*words, "-o", "r.json")
    again = run("rerun", "r.json", "--check", "--format", "csv")
    assert again.exit_code == 0, again.stderr
    assert again.stdout == csv
    assert "records" in again.stderr
    assert "changed" not in again.stderr
    assert run("rerun", "r.json", "-o", "s.json").exit_code == 0
    assert Path("s.json").read_text() == Path("r.json").read_text()


def test_presets_are_recorded_as_what_they_stand_for(folder: Path) -> None:
    compared("a.npy", "b.npy", "--quick", "--halves", "0", "-o", "r.json")
    words = json.loads(Path("r.json").read_text())["request"]["command"]
    assert words[:3] == ["compare", "a.npy", "b.npy"]
    assert "--quick" not in words
    assert words[words.index("--split") + 1] == "0.0"
    assert not {"-o", "--output", "--format"} & set(words)


def test_what_is_overridden_is_named_and_what_differs_is_exit_code_3(folder: Path) -> None:
    compared("a.npy", "b.npy", *CHEAP, "-o", "r.json")
    other = run("rerun", "r.json", "--check", "--seed", "1", "--format", "csv")
    assert other.exit_code == 3
    assert re.search(r"--seed\b.* 0 .* 1$", other.stderr, re.MULTILINE)
    assert re.search(r"a\.npy::a .* b\.npy::b\b.* held-out rigid", other.stderr)
    assert "6 of 6 records" in other.stderr
    assert other.stdout == compared("a.npy", "b.npy", *CHEAP, "--seed", "1")
    near = run("rerun", "r.json", "--check", "--within", "5", "--seed", "1")
    assert near.exit_code == 0


def test_inputs_that_have_changed_are_refused_before_anything_is_computed(folder: Path) -> None:
    compared("a.npy", "b.npy", "--ids", "ids.txt", *CHEAP, "-o", "r.json")
    values = np.load("b.npy")
    values[0, 0] += 1e-3
    np.save("b.npy", values)
    refused = run("rerun", "r.json")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "b.npy::b" in refused.stderr
    assert "--changed" in refused.stderr
    allowed = run("rerun", "r.json", "--changed", "--check", "--within", "1e-12")
    assert allowed.exit_code == 3
    assert "b.npy::b" in allowed.stderr
    Path("ids.txt").write_text("".join(f"other {number}\n" for number in range(200)))
    told = run("rerun", "r.json").stderr
    assert "ids.txt" in told
    assert "a.npy::a" in told


def test_other_versions_are_named(folder: Path) -> None:
    compared("a.npy", "b.npy", *CHEAP, "-o", "r.json")
    content = json.loads(Path("r.json").read_text())
    content["versions"] |= {"numpy": "1.0", "no such package": "7"}
    Path("r.json").write_text(json.dumps(sealed(content)))
    told = run("rerun", "r.json").stderr
    assert re.search(rf"numpy\b.* 1\.0 .* {re.escape(np.__version__)}", told)
    assert re.search(r"no such package\b.* 7 .*not installed", told)


def test_gates_belong_to_the_command(folder: Path) -> None:
    compared("a.npy", "b.npy", *CHEAP, "--fail-above", "rigid=5", "-o", "r.json")
    held = run("rerun", "r.json")
    assert held.exit_code == 0
    assert "gate" in held.stderr
    assert run("rerun", "r.json", "--fail-above", "rigid=0").exit_code == 3


@pytest.mark.parametrize("words", [["--output", "victim"], ["--plot", "victim.png"], ["-f", "csv"]])
def test_a_record_does_not_decide_what_is_written(folder: Path, words: list[str]) -> None:
    compared("a.npy", "b.npy", *CHEAP, "-o", "r.json")
    content = json.loads(Path("r.json").read_text())
    content["request"]["command"] += words
    Path("r.json").write_text(json.dumps(sealed(content)))
    refused = run("rerun", "r.json")
    assert refused.exit_code == 1
    assert "where to write" in refused.stderr
    assert not list(folder.glob("victim*"))


def test_a_record_that_only_shows_help_is_refused(folder: Path) -> None:
    compared("a.npy", "b.npy", *CHEAP, "-o", "r.json")
    content = json.loads(Path("r.json").read_text())
    content["request"]["command"].append("--help")
    Path("r.json").write_text(json.dumps(sealed(content)))
    refused = run("rerun", "r.json", "--check")
    assert refused.exit_code == 1
    assert "help" in refused.stderr
    assert refused.stdout == ""


def test_a_changed_record_is_refused_by_what_reads_it(folder: Path) -> None:
    compared("a.npy", "b.npy", *CHEAP, "-o", "r.json")
    content = json.loads(Path("r.json").read_text())
    content["records"][0]["error"] *= 2
    Path("r.json").write_text(json.dumps(content))
    for line in (["rerun", "r.json"], ["compare", "a.npy", "b.npy", "--baseline", "r.json"]):
        refused = run(*line)
        assert refused.exit_code == 1
        assert re.search(r"r\.json\b.* changed", refused.stderr)
    del content["sha256"]
    Path("r.json").write_text(json.dumps(content))
    for line in (
        ["rerun", "r.json"],
        ["compare", "a.npy", "b.npy", *CHEAP, "--baseline", "r.json"],
    ):
        assert re.search(r"r\.json\b.* digest", run(*line).stderr)


def test_what_is_no_record_of_a_command_is_refused(folder: Path) -> None:
    compared("a.npy", "b.npy", *CHEAP, "-o", "r.csv")
    assert "which command" in run("rerun", "r.csv").stderr
    compared("a.npy", "b.npy", *CHEAP, "-o", "r.json")
    content = json.loads(Path("r.json").read_text())
    content["request"]["command"] = ["store", "verify"]
    Path("r.json").write_text(json.dumps(sealed(content)))
    assert run("rerun", "r.json").exit_code == 1
    assert run("rerun", "none.json").exit_code == 1


def test_the_record_is_not_replaced_by_what_comes_out(folder: Path) -> None:
    compared("a.npy", "b.npy", *CHEAP, "-o", "r.json")
    refused = run("rerun", "r.json", "-o", "r.json")
    assert refused.exit_code == 1
    assert "the input" in refused.stderr
