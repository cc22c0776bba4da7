from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from repalign.cli.app import RepalignGroup
from repalign.cli.commands.compare import compare
from repalign.cli.commands.report import report

app = typer.Typer(cls=RepalignGroup)
app.command("compare")(compare)
app.command("report")(report)


def run(*arguments: str):
    return CliRunner().invoke(app, arguments)


def test_results_become_a_page_beside_them(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.laplace(size=(200, 3))
    for name in "ab":
        np.save(tmp_path / f"{name}.npy", x + 0.1 * rng.standard_normal(x.shape))
    results = tmp_path / "results.json"
    files = [str(tmp_path / f"{name}.npy") for name in "ab"]
    cheap = ["--null", "0", "--rotations", "0", "--halves", "0"]
    assert run("compare", *files, *cheap, "-o", str(results)).exit_code == 0
    made = run("report", str(results))
    assert made.exit_code == 0, made.stderr
    assert made.stdout == ""
    assert str(tmp_path / "results.html") in made.stderr
    assert (tmp_path / "results.html").read_text().startswith("<!doctype html>")
    other = tmp_path / "other.html"
    assert run("report", str(results), "-o", str(other)).exit_code == 0
    assert other.read_text() == (tmp_path / "results.html").read_text()


def test_a_missing_file_is_one_line_on_stderr(tmp_path: Path) -> None:
    failed = run("report", str(tmp_path / "none.json"))
    assert failed.exit_code == 1
    assert failed.stderr.startswith("error: ")
    assert len(failed.stderr.splitlines()) == 1


@pytest.mark.parametrize("name", ["", "/", "."])
def test_a_directory_is_no_result(name: str) -> None:
    failed = run("report", name)
    assert failed.exit_code == 1
    assert "directory" in failed.stderr
