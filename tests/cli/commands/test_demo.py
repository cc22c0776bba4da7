import csv
import io
import json
import re
import shlex
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from repalign.cli.app import RepalignGroup
from repalign.cli.commands import store, zoo
from repalign.cli.commands.compare import compare
from repalign.cli.commands.demo import demo
from repalign.cli.commands.extract import extract
from repalign.cli.commands.report import report
from repalign.comparison.results import COLUMNS
from repalign.experiments.table_one import FULL, SMALL
from repalign.experiments.table_one_commands import commands_of
from repalign.experiments.table_one_pairs import PAIRS

app = typer.Typer(cls=RepalignGroup)
for command in (compare, demo, extract, report):
    app.command()(command)
app.add_typer(store.app, name="store")
app.add_typer(zoo.app, name="zoo")


def run(*arguments: str):
    return CliRunner().invoke(app, arguments)


def run_line(line: str):
    """Run a line as a shell would, with the one substitution that the demo prints."""

    def path(match: re.Match[str]) -> str:
        return shlex.quote(run("zoo", "path", match[1]).stdout.strip())

    words = shlex.split(re.sub(r"\$\(repalign zoo path ([\w-]+)\)", path, line))
    assert words[0] == "repalign"
    return run(*words[1:])


def read(folder: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO((folder / "results.csv").read_text())))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "my demo"
    return folder, run("demo", str(folder), "-f", "table")


@pytest.mark.slow
def test_the_demo_prints_the_table_what_it_means_and_how_to_do_it(finished) -> None:
    folder, made = finished
    assert made.exit_code == 0, made.stderr
    for pair in PAIRS:
        assert pair.title in made.stdout
        assert pair.paper_row is None or f"(paper: {pair.paper_row})" in made.stdout
    assert "What it means" in made.stdout
    assert f"repalign report '{folder}'/results.json" in made.stdout


def error_lines(text: str) -> list[tuple[str, list[float]]]:
    """Label and numbers of every line of errors, efficiency last."""
    lines = [line.split() for line in text.splitlines()]
    labels = ("in-sample", "held-out", "paper")
    # the legend names the splits too, without a number behind
    chosen = [words for words in lines if len(words) > 1 and words[0] in labels and "." in words[1]]
    return [(words[0], [float(word) for word in words[1:]]) for words in chosen]


@pytest.mark.slow
def test_the_documented_output_is_what_comes_out(finished) -> None:
    _, made = finished
    documented = error_lines((Path(__file__).parents[3] / "docs" / "demo.md").read_text())
    fresh = error_lines(made.stdout)
    assert [label for label, _ in fresh] == [label for label, _ in documented]
    for (_, now), (_, then) in zip(fresh, documented, strict=True):
        # another machine rounds otherwise, and ICA may end in another optimum
        assert now[:-1] == pytest.approx(then[:-1], rel=0.1)
        assert now[-1] == pytest.approx(then[-1], abs=15)


@pytest.mark.slow
def test_the_trained_pairs_show_the_papers_pattern_and_the_controls_do_not(finished) -> None:
    folder, _ = finished
    rows = read(folder)
    assert tuple(rows[0])[: len(COLUMNS)] == COLUMNS
    for pair in PAIRS:
        mine = [row for row in rows if row["pair"] == pair.title]
        error = {(r["map"], r["split"]): float(r["error"]) for r in mine}
        p_value = {(r["map"], r["split"]): float(r["p_value"] or "nan") for r in mine}
        if pair.role == "unrelated":
            assert p_value["linear", "held-out"] > 0.05
            assert p_value["rigid", "held-out"] > 0.05
        if pair.role == "related":
            in_sample = [error[m, "in-sample"] for m in ("linear", "rigid", "ica", "permutation")]
            assert in_sample == sorted(in_sample)
            assert p_value["rigid", "held-out"] == 0.01
            assert error["linear", "held-out"] > error["linear", "in-sample"]


@pytest.mark.slow
def test_what_the_demo_keeps_makes_a_report(finished) -> None:
    folder, _ = finished
    content = json.loads((folder / "results.json").read_text())
    assert len(content["pairs"]) == len(PAIRS)
    for ending in ("csv", "json"):
        made = run("report", str(folder / f"results.{ending}"))
        assert made.exit_code == 0, made.stderr
        assert "digest" not in made.stderr
    assert (folder / "results.html").stat().st_size > 100_000


@pytest.mark.slow
def test_the_printed_commands_run_and_give_the_same_numbers(finished, tmp_path: Path) -> None:
    folder, made = finished
    lines = [line.strip() for line in made.stdout.splitlines() if line.startswith("  repalign ")]
    by_hand = [line.replace(shlex.quote(str(folder)), str(tmp_path)) for line in lines]
    resnets = [line for line in by_hand if "extract" in line and "path resnet-seed" in line]
    for line in resnets[:2]:
        done = run_line(line)
        assert done.exit_code == 0, done.stderr
    compared = run_line(next(line for line in by_hand if "compare" in line and "resnet-s" in line))
    rows = list(csv.DictReader(io.StringIO(compared.stdout)))
    kept = [
        row
        for row in read(folder)
        if row["source"] == "resnet-seed0" and row["target"] == "resnet-seed1"
    ]
    assert len(rows) == len(kept) == 12
    for row, earlier in zip(rows, kept, strict=True):
        for name in ("map", "split", "n_rows", "seed", "ica_solver"):
            assert row[name] == earlier[name]
        # the demo extracts on one thread, a command on as many as there are
        assert float(row["error"]) == pytest.approx(float(earlier["error"]), rel=1e-3)


@pytest.mark.slow
def test_a_second_run_in_the_same_folder_gives_the_same_csv(finished) -> None:
    folder, _ = finished
    again = run("demo", str(folder))
    assert again.exit_code == 0, again.stderr
    assert again.stdout == (folder / "results.csv").read_text()
    assert "What it means" in again.stderr


@pytest.mark.parametrize("settings", [SMALL, FULL], ids=["small", "full"])
def test_the_commands_use_options_that_exist(settings) -> None:
    help_texts = {
        name: run(*name.split(), "--help").stdout for name in ("extract", "compare", "store export")
    }
    for line in commands_of(settings, "demo"):
        name = next(name for name in help_texts if line.startswith(f"repalign {name} "))
        for option in re.findall(r" (--[a-z-]+)", line):
            assert option in help_texts[name], line
