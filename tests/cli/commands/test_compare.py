import csv
import io
import json
import os
import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from repalign.cli.app import app
from repalign.comparison.results import COLUMNS
from repalign.store import write_store

CHEAP = ["--null", "9", "--rotations", "0", "--halves", "0"]


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    rng = np.random.default_rng(0)
    sources = rng.laplace(size=(300, 4)) * [1, 2, 3, 4]
    for name in ("a", "b", "c"):
        turned = sources @ np.linalg.qr(rng.standard_normal((4, 4)))[0]
        np.save(tmp_path / f"{name}.npy", turned + 0.1 * rng.standard_normal((300, 4)))
    return [str(tmp_path / f"{name}.npy") for name in ("a", "b", "c")]


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["compare", *arguments])
    assert result.exit_code == 0, result.stderr
    return result.stdout


def test_piped_stdout_is_tidy_csv_and_warnings_go_to_stderr(files) -> None:
    result = CliRunner().invoke(app, ["compare", *files[:2], *CHEAP])
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    assert tuple(rows[0]) == COLUMNS
    assert [(row["map"], row["split"]) for row in rows[:2]] == [
        ("mean", "in-sample"),
        ("permutation", "in-sample"),
    ]
    assert len(rows) == 12
    assert "row order" in result.stderr
    ica = next(row for row in rows if row["map"] == "ica")
    assert ica["converged"] == "true"
    assert float(ica["efficiency"]) > 0.8
    assert rows[0]["efficiency"] == ""


def test_the_table_is_the_papers_with_arrows_and_fits_its_lines(files) -> None:
    text = run(*files[:2], *CHEAP, "-f", "table")
    heading = next(line for line in text.splitlines() if "Permutation ↓" in line)
    assert re.sub(r" +", " ", heading).strip() == (
        "Mean ↓ Permutation ↓ Perm.+scale ↓ Rigid ↓ Linear ↓ ICA ↓ % eff. ↑"
    )
    assert "supervised" in text
    assert "held-out" in text
    assert "null" in text


def test_json_markdown_and_latex(files, tmp_path: Path) -> None:
    data = json.loads(run(*files[:2], *CHEAP, "-f", "json"))
    assert data["settings"]["n_null"] == 9
    assert data["pairs"][0]["diameter_exact"] is True
    assert run(*files[:2], *CHEAP, "-f", "markdown").startswith("|  | Mean ↓ |")
    out = tmp_path / "table.tex"
    run(*files[:2], *CHEAP, "-o", str(out))
    assert r"\multicolumn{2}{c}{Supervised}" in out.read_text()


def test_all_pairs_or_against_one(files) -> None:
    quick = ["--quick", "--halves", "0", "--maps", "rigid"]
    every = list(csv.DictReader(io.StringIO(run(*files, *quick))))
    assert len(every) == 3
    against = list(csv.DictReader(io.StringIO(run(*files[1:], "--against", files[0], *quick))))
    assert [Path(row["source"]).name for row in against] == ["a.npy", "a.npy"]


def test_paper_is_four_maps_of_fastica_in_sample(files) -> None:
    rows = list(csv.DictReader(io.StringIO(run(*files[:2], "--paper"))))
    assert [row["map"] for row in rows] == ["permutation", "rigid", "linear", "ica"]
    assert {row["split"] for row in rows} == {"in-sample"}
    assert rows[3]["ica_solver"] == "sklearn"


def test_ids_and_groups_come_from_files(files, tmp_path: Path) -> None:
    ids, groups = tmp_path / "ids.txt", tmp_path / "groups.txt"
    ids.write_text("".join(f"s{i}\n" for i in range(300)))
    groups.write_text("".join(f"plate {i // 30}\n" for i in range(300)))
    result = CliRunner().invoke(
        app, ["compare", *files[:2], *CHEAP, "--ids", str(ids), "--groups", str(groups)]
    )
    assert result.exit_code == 0, result.stderr
    assert "row order" not in result.stderr
    held_out = [r for r in csv.DictReader(io.StringIO(result.stdout)) if r["split"] == "held-out"]
    assert {row["n_rows"] for row in held_out} == {"60"}


def test_maps_are_saved_looked_at_and_applied(files, tmp_path: Path, monkeypatch) -> None:
    maps = tmp_path / "maps"
    quick = ["--quick", "--halves", "0", "--maps", "rigid"]
    run(*files[:2], *quick, "--save-maps", str(maps))
    with monkeypatch.context() as patch:  # refused before anything is computed
        patch.setattr("repalign.comparison.run.compare", None)
        again = CliRunner().invoke(app, ["compare", *files[:2], *quick, "--save-maps", str(maps)])
    assert again.exit_code == 1
    assert "01-rigid.safetensors" in again.stderr
    shown = CliRunner().invoke(
        app, ["maps", "info", str(maps / "01-rigid.safetensors"), "-f", "json"]
    )
    assert json.loads(shown.stdout)["rank"] == 4
    out = tmp_path / "out.h5"
    applied = CliRunner().invoke(
        app, ["apply", str(maps / "01-rigid.safetensors"), files[0], "-o", str(out)]
    )
    assert applied.exit_code == 0, applied.stderr
    near = list(
        csv.DictReader(io.StringIO(run(str(out), files[1], "--maps", "identity", *quick[:3])))
    )
    assert float(near[0]["error"]) < 0.05


def test_verbose_says_what_the_machine_gives(files) -> None:
    quick = ["compare", *files[:2], "--quick", "--maps", "rigid", "--memory", "1GiB"]
    loud = CliRunner().invoke(app, [*quick, "--verbose"])
    assert re.search(r"\d threads.* 1 GiB", loud.stderr)
    assert "threads" not in CliRunner().invoke(app, quick).stderr


def test_a_picture_is_drawn(files, tmp_path: Path) -> None:
    picture = tmp_path / "errors.png"
    run(*files[:2], *CHEAP, "--plot", str(picture))
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["{a}"], 1, "1 set"),
        (["{a}", "nowhere.h5"], 1, "nowhere.h5"),
        (["{a}", "{b}", "--maps", "affine"], 2, "'affine'"),
        (["{a}", "{b}", "--paper", "--audit"], 2, "--audit"),
        (["{a}", "{b}", "--memory", "lots"], 1, "'lots'"),
        (["{a}", "{b}", "--device", "tpu"], 1, "tpu"),
        (["{a}", "{b}", "--split", "2"], 1, "2.0"),
        (["{a}", "{b}", "-o", "x.xls"], 1, "'.xls'"),
        ([], 2, "'stores'"),
    ],
)
def test_bad_input_is_one_line_and_an_exit_code(files, arguments, code, message) -> None:
    filled = [word.format(a=files[0], b=files[1]) for word in arguments]
    result = CliRunner().invoke(app, ["compare", *filled])
    assert result.exit_code == code
    assert message in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("option", ["--ids", "--groups"])
def test_pipes_of_ids_and_groups_are_refused_and_not_waited_for(files, option: str) -> None:
    pipe = Path(files[0]).with_name("pipe")
    os.mkfifo(pipe)

    result = CliRunner().invoke(app, ["compare", *files[:2], option, str(pipe)])

    assert result.exit_code == 1
    assert "a pipe" in result.stderr


@pytest.fixture
def layered(tmp_path: Path) -> list[str]:
    rng = np.random.default_rng(1)
    sources = rng.laplace(size=(120, 4))
    for name in ("a", "b"):
        views = {
            f"block-{layer}": sources @ rng.standard_normal((4, 4)) + layer for layer in (2, 10)
        }
        write_store(tmp_path / f"{name}.h5", views)
    return [str(tmp_path / "a.h5"), str(tmp_path / "b.h5")]


ONE_MAP = ["--quick", "--halves", "0", "--maps", "rigid"]


def test_layers_of_models_are_compared_across_them_under_their_names(layered) -> None:
    names = ["--name", f"A={layered[0]}", "--name", f"B={layered[1]}"]
    across = list(csv.DictReader(io.StringIO(run(*layered, *ONE_MAP, "--layers", "all", *names))))
    columns = ("source", "source_view", "source_layer", "target", "target_view", "target_layer")
    assert [tuple(row[name] for name in columns) for row in across] == [
        ("A", "block-2", "0", "B", "block-2", "0"),
        ("A", "block-2", "0", "B", "block-10", "1"),
        ("A", "block-10", "1", "B", "block-2", "0"),
        ("A", "block-10", "1", "B", "block-10", "1"),
    ]
    within = run(*layered, *ONE_MAP, "--layers", "block-*", "--within")
    assert len(within.splitlines()) == 1 + 6
    alone = run(f"{layered[0]}::block-*", *ONE_MAP, "-f", "json")
    (pair,) = json.loads(alone)["pairs"]
    assert (pair["source"]["view"], pair["target"]["layer"]) == ("block-2", 1)
    assert pair["source"]["path"] == layered[0]


def test_every_layer_against_those_of_one(layered) -> None:
    text = run(
        layered[0],
        "--against",
        layered[1],
        *ONE_MAP,
        "--layers",
        "all",
        "--name",
        f"R={layered[1]}",
    )
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [(row["source"], row["source_view"], row["target_view"]) for row in rows] == [
        ("R", "block-2", "block-2"),
        ("R", "block-2", "block-10"),
        ("R", "block-10", "block-2"),
        ("R", "block-10", "block-10"),
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--layers", "layer*"], 1, "'layer*'"),
        ([], 1, "--layers all"),
        (["--layers", "all", "--max-pairs", "3"], 1, "4 pairs"),
        (["--layers", "all", "--name", "A"], 2, "NAME=STORE"),
        (["--layers", "all", "--name", "A=c.h5"], 2, "'c.h5'"),
    ],
)
def test_views_that_cannot_be_meant_are_refused(layered, arguments, code, message) -> None:
    result = CliRunner().invoke(app, ["compare", *layered, *ONE_MAP, *arguments])
    assert result.exit_code == code
    assert message in " ".join(result.stderr.replace("│", "").split())


def test_best_matches_are_a_narrow_table(layered, tmp_path: Path) -> None:
    out = [str(tmp_path / f"best{ending}") for ending in (".tex", ".csv")]
    for path in out:
        run(*layered, *ONE_MAP, "--layers", "all", "--matches", path)
    text, everything = (Path(path).read_text() for path in out)
    rows = [line for line in text.splitlines() if line.startswith("block")]
    assert len(rows) == 2  # the views of the source, by one map on one split
    assert all(row.count("&") == 4 for row in rows)
    assert len(everything.splitlines()) > 3
