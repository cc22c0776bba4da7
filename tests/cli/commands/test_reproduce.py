import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from repalign.cli.app import RepalignGroup
from repalign.cli.commands.doctor import doctor
from repalign.cli.commands.reproduce import reproduce
from repalign.exceptions import InputError
from repalign.experiments.reproduce.registry import experiments

app = typer.Typer(cls=RepalignGroup)
app.command()(reproduce)
app.command()(doctor)


def run(*words: str):
    return CliRunner().invoke(app, ["reproduce", *words])


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_the_list_says_what_every_experiment_shows_needs_and_takes() -> None:
    ran = run("--list")
    assert ran.exit_code == 0
    listed = rows(ran.stdout)
    assert [row["experiment"] for row in listed] == [each.name for each in experiments()]
    assert all(row["shows"] and row["needs"] for row in listed)
    assert all(row["takes"].startswith("small: ") for row in listed)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reproduced") / "null"
    return folder, run("gaussian-null", "--seeds", "1", "-o", str(folder))


def test_a_run_leaves_every_number_the_summary_and_a_figure(finished) -> None:
    folder, ran = finished
    assert ran.exit_code == 0, ran.stderr
    summary = rows(ran.stdout)
    assert summary == rows((folder / "summary.csv").read_text())
    assert summary[0]["case"] == "gaussian, 16 columns, 1000 rows"
    assert summary[0]["published"] == ".25 to .59"
    assert len(rows((folder / "results.csv").read_text())) == len(summary)
    assert (folder / "figure.png").read_bytes().startswith(b"\x89PNG")
    document = json.loads((folder / "results.json").read_text())
    assert (document["experiment"], document["seeds"]) == ("gaussian-null", [0])


def test_the_cost_is_told_beforehand_and_the_meaning_behind(finished) -> None:
    lines = finished[1].stderr.splitlines()
    assert re.match("gaussian-null, small\\b.* 11 cases, seeds 0 to 0", lines[0])
    assert any(line.startswith("Set-up: ") for line in lines)
    assert "processor seconds" in lines[-1]


def test_a_folder_of_another_experiment_is_refused(finished) -> None:
    ran = run("table1", "-o", str(finished[0]))
    assert ran.exit_code == 1
    assert re.search("gaussian-null small.* table1 small", ran.stderr)


def test_a_folder_of_other_data_is_refused(tmp_path: Path) -> None:
    record = {"experiment": "data-size", "preset": "small", "data": {"name": "Fashion-MNIST"}}
    (tmp_path / "results.json").write_text(json.dumps(record))
    ran = run("data-size", "-o", str(tmp_path))
    assert ran.exit_code == 1
    assert re.search("Fashion-MNIST.* digits", ran.stderr)


def test_a_name_or_the_list_must_be_asked_for() -> None:
    for words in ((), ("table1", "--list")):
        ran = run(*words)
        assert ran.exit_code == 2
        assert "--list" in ran.stderr


def test_a_preset_that_needs_data_asks_for_them(tmp_path: Path) -> None:
    ran = run("proxy-factors", "--preset", "paper", "-o", str(tmp_path / "x"))
    assert ran.exit_code == 1
    assert "annotations" in ran.stderr


@pytest.mark.parametrize("name", [e.name for e in experiments()])
def test_the_cost_of_the_sizes_of_the_paper_is_told_before_they_begin(
    name: str, tmp_path: Path, monkeypatch
) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise InputError("stopped here")

    monkeypatch.setattr("repalign.experiments.reproduce.run.reproduce", stopped)
    ran = run(name, "--preset", "paper", "-o", str(tmp_path / "x"))
    told, end = ran.stderr.strip().splitlines()
    assert re.match(rf"{name}, paper\b.* \d+ cases\b.* [\d,]+ \w+ of one core", told)
    assert end == "error: stopped here"


def test_what_cannot_be_fetched_is_told_before_anything_is_made(tmp_path: Path) -> None:
    ran = run("warmup", "--fetch", "MNIST", "-o", str(tmp_path / "x"))
    assert ran.exit_code == 1
    assert re.search("--fetch MNIST.* --data", ran.stderr)
    assert not (tmp_path / "x").exists()


@pytest.mark.slow
def test_a_killed_run_continues_where_it_was(finished, tmp_path: Path) -> None:
    folder = tmp_path / "killed"
    line = [sys.executable, "-m", "repalign", "reproduce", "gaussian-null", "--seeds", "1"]
    root = Path(__file__).parents[3]
    process = subprocess.Popen(
        [*line, "-o", str(folder)],
        env=os.environ | {"PYTHONPATH": str(root)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 120
    while len(list(folder.glob("cases/*.result"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = {path: path.stat().st_ino for path in folder.glob("cases/*.result")}
    assert 2 <= len(kept) < 11
    ran = run("gaussian-null", "--seeds", "1", "-o", str(folder))
    assert rows(ran.stdout) == rows(finished[1].stdout)
    assert all(path.stat().st_ino == before for path, before in kept.items())
