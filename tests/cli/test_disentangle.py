import csv
import io
import json
from dataclasses import fields
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from repalign.cli.app import app
from repalign.store.exchange.map_file import load_map
from repalign.workflows.disentangle.results import BatchRecord, ScoreRecord

QUICK = ["--null", "2", "--halves", "2", "--scores", "infomec,mcc"]


@pytest.fixture
def latents(tmp_path: Path) -> list[str]:
    """Three factors under a rotation, and their table with ids in another order."""
    rng = np.random.default_rng(0)
    sources = np.stack([rng.integers(0, k, 500) for k in (3, 4, 5)], axis=1)
    scaled = (sources - sources.mean(axis=0)) / sources.std(axis=0)
    turned = scaled @ np.linalg.qr(rng.normal(size=(3, 3)))[0]
    values = np.column_stack([turned, np.zeros(500)]) + 1e-3 * rng.normal(size=(500, 4))
    np.save(tmp_path / "latents.npy", values)
    ids = [f"image {i}" for i in range(500)]
    (tmp_path / "latents.ids.txt").write_text("\n".join(ids) + "\n")
    frame = pd.DataFrame(sources, columns=["shape", "hue", "x"])
    frame.insert(0, "id", ids)
    frame.sample(frac=1, random_state=0).to_csv(tmp_path / "factors.csv", index=False)
    return [str(tmp_path / "latents.npy"), "--factors", str(tmp_path / "factors.csv")]


@pytest.fixture
def cells(tmp_path: Path) -> list[str]:
    pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    plates, perturbed = np.arange(400) % 5, rng.integers(0, 2, 400)
    values = rng.laplace(size=(400, 6))
    values[:, 0] += 2 * perturbed
    np.save(tmp_path / "cells.npy", values)
    frame = pd.DataFrame({"perturbed": perturbed, "plate": plates})
    frame["gene"] = np.where(perturbed == 0, "none", np.where(plates < 3, "SRC", "HCK"))
    frame.to_csv(tmp_path / "wells.csv", index=False)
    table = str(tmp_path / "wells.csv")
    return [str(tmp_path / "cells.npy"), "--table", table, "--batch", "plate", "--top", "25"]


def invoke(*arguments: str):
    return CliRunner().invoke(app, ["disentangle", *arguments])


def run(*arguments: str) -> str:
    result = invoke(*arguments)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_piped_stdout_is_tidy_csv_and_warnings_go_to_stderr(latents) -> None:
    result = invoke(*latents, *QUICK)
    rows = rows_of(result.stdout)
    assert list(rows[0]) == [field.name for field in fields(ScoreRecord)]
    assert {row["condition"] for row in rows} == {"raw", "pca", "pca+ica", "pca+rotation", "ica"}
    assert rows[0]["score"] == "InfoE"
    assert "raw: 1 of 4 latents are inactive and pruned" in result.stderr
    assert "row order" not in result.stderr
    found = {(row["condition"], row["score"]): float(row["value"]) for row in rows}
    assert found["ica", "MCC-pearson"] > 0.98 > 0.95 > found["raw", "MCC-pearson"]


def test_the_table_shows_value_interval_and_null(latents) -> None:
    text = run(*latents, *QUICK, "-f", "table")
    for part in ("InfoE ↑", "95 %", "factors shuffled", "pca+random rotation", "ica (no whiten"):
        assert part in text
    assert "raw: 3 of 4 latents active" in text


def test_latex_is_the_papers_table_with_arrows(latents) -> None:
    text = run(*latents, *QUICK, "--seeds", "2", "-f", "latex")
    assert r"& InfoM $\uparrow$ & InfoE $\uparrow$ & InfoC $\uparrow$ \\" in text
    assert r"pca+ica & " in text
    assert r"$\pm$" in text
    assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") == 1


def test_markdown_and_json(latents) -> None:
    assert "| InfoM ↑ |" in run(*latents, *QUICK, "--conditions", "raw", "-f", "markdown")
    document = json.loads(run(*latents, *QUICK, "--conditions", "raw,ica", "-f", "json"))
    assert document["format"] == "repalign-disentangle"
    assert document["settings"]["transform"]["conditions"] == ["raw", "ica"]
    assert document["matrices"][0]["factors"] == ["shape", "hue", "x"]
    assert document["matrices"][0]["pruned_latents"] == [3]


def test_factors_can_be_chosen_and_typed(latents) -> None:
    arguments = [*latents, *QUICK, "--conditions", "raw"]
    rows = rows_of(run(*arguments, "--factor", "hue", "--factor", "x", "--continuous", "x"))
    assert rows[0]["n_factors"] == "2"
    one = rows_of(run(*arguments, "--factor", "hue"))
    modularity = next(row for row in one if row["score"] == "InfoM")
    assert modularity["value"] == ""
    assert modularity["reason"] == "modularity needs at least two factors, got 1"
    table = run(*arguments, "--factor", "hue", "-f", "table")
    assert "raw, InfoM: modularity needs at least two factors, got 1" in table
    assert "n/a" in table


def test_two_sets_are_scored_side_by_side(latents, tmp_path: Path) -> None:
    np.save(tmp_path / "noise.npy", np.random.default_rng(1).normal(size=(500, 3)))
    (tmp_path / "noise.ids.txt").write_text((tmp_path / "latents.ids.txt").read_text())
    rows = rows_of(run(str(tmp_path / "noise.npy"), *latents, *QUICK, "--conditions", "raw"))
    assert len({row["source"] for row in rows}) == 2


def test_two_views_of_one_file_stay_apart(latents, tmp_path: Path) -> None:
    values = np.load(latents[0])
    path = tmp_path / "views.npz"
    np.savez(path, good=values, bad=values[:, 3:], ids=np.array([f"image {i}" for i in range(500)]))
    arguments = [f"{path}::good", f"{path}::bad", *latents[1:], *QUICK, "--conditions", "raw,pca"]
    latex = run(*arguments, "-f", "latex")
    assert f"{path}::good raw".replace("_", r"\_") in latex
    assert "$\\pm$" not in latex
    folder = tmp_path / "fits"
    run(*arguments, "--save-transform", str(folder))
    assert sorted(one.name for one in folder.iterdir()) == [
        "01-pca.safetensors", "02-pca.safetensors",
    ]  # fmt: skip


def test_the_transform_is_saved_and_applied(latents, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    folder, picture = tmp_path / "fits", tmp_path / "matrix.png"
    arguments = [*latents, *QUICK, "--save-transform", str(folder), "--plot", str(picture)]
    result = invoke(*arguments)
    assert result.exit_code == 0, result.stderr
    assert sorted(path.name for path in folder.iterdir()) == [
        "ica.safetensors", "pca-ica.safetensors", "pca-rotation.safetensors", "pca.safetensors",
    ]  # fmt: skip
    saved = load_map(folder / "pca-ica.safetensors")
    values = np.load(latents[0]) @ saved.matrix + saved.shift
    assert np.cov(values.T, bias=True) == pytest.approx(np.eye(4), abs=1e-4)
    assert picture.stat().st_size > 1000

    mapped = str(tmp_path / "mapped.h5")
    applied = CliRunner().invoke(
        app, ["apply", str(folder / "pca-ica.safetensors"), latents[0], "-o", mapped]
    )
    assert applied.exit_code == 0, applied.stderr
    again = invoke(*arguments)
    assert again.exit_code == 1
    assert "already exists" in again.stderr
    assert invoke(*arguments, "--overwrite").exit_code == 0


def test_labels_are_judged_on_held_out_batches(cells) -> None:
    rows = rows_of(run(*cells, "--label", "perturbed"))
    assert list(rows[0]) == [field.name for field in fields(BatchRecord)]
    assert {row["condition"] for row in rows} == {"raw", "pca", "pca+ica", "pca+rotation"}
    auroc = next(row for row in rows if (row["condition"], row["measure"]) == ("raw", "AUROC"))
    assert float(auroc["value"]) > 0.8
    assert auroc["n_folds"] == "5"


def test_the_deconfounding_table_in_every_layout(cells) -> None:
    arguments = [*cells, "--label", "gene", "--control", "none", "--conditions", "raw,pca"]
    table = run(*arguments, "-f", "table")
    for part in ("AUROC ↑", "gene=HCK", "(mean over labels)", "top 25 %", "chance 0.200"):
        assert part in table
    latex = run(*arguments, "-f", "latex")
    assert r"AUROC $\uparrow$" in latex
    assert r"gene=SRC & " in latex
    assert "| gene=SRC |" in run(*arguments, "-f", "markdown")


def test_both_protocols_resume_and_workers(cells, tmp_path: Path) -> None:
    arguments = [
        *cells, "--label", "perturbed", "--protocols", "leave-batches-out,train-on-one",
        "--conditions", "raw", "--resume", str(tmp_path / "folds.jsonl"), "--workers", "2",
        "--fit-on", "train",
    ]  # fmt: skip
    first = run(*arguments)
    assert {row["protocol"] for row in rows_of(first)} == {
        "leave-batches-out", "train-on-one", "rows",
    }  # fmt: skip
    assert run(*arguments) == first


def test_the_embeddings_own_table_can_hold_the_columns(cells, tmp_path: Path) -> None:
    frame = pd.read_csv(tmp_path / "wells.csv")[["perturbed", "plate"]]
    path = tmp_path / "all.npz"
    np.savez(path, embeddings=np.load(cells[0]), **{n: frame[n].to_numpy() for n in frame})
    rows = rows_of(
        run(f"{path}::embeddings", "--table", str(path), "--label", "perturbed", "--batch", "plate")
    )
    assert rows[0]["n_batches"] == "5"


@pytest.mark.parametrize(
    "arguments",
    [[], ["--label", "a"], ["--batch", "b"], ["--factors", "f.csv", "--label", "a"]],
)
def test_half_a_question_is_wrong_usage(latents, arguments) -> None:
    result = invoke(latents[0], *arguments)
    assert result.exit_code == 2
    assert "--factors" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--conditions", "zca"], "no condition is called zca"),
        (["--scores", "beta"], "no score group is called beta"),
        (["--discrete", "x", "--continuous", "x"], "x is declared discrete and continuous"),
        (["--factor", "size"], "has no column 'size'"),
        (["--plot", "matrix.xyz"], "--plot matrix.xyz"),
    ],
)
def test_impossible_requests_are_one_line_and_exit_1(latents, arguments, message: str) -> None:
    result = invoke(*latents, "--null", "0", "--halves", "0", *arguments)
    assert result.exit_code == 1
    assert message in result.stderr


def test_labels_need_one_set_a_table_and_percentages(cells, tmp_path: Path) -> None:
    question = ["--label", "perturbed", "--batch", "plate"]
    several = invoke(cells[0], *cells, "--label", "perturbed")
    assert "2 sets of embeddings with --label; expected one" in several.stderr
    no_table = invoke(cells[0], *question)
    assert "holds no columns of labels and batches" in no_table.stderr
    wrong = invoke(*cells[:-2], "--label", "perturbed", "--top", "a,b")
    assert "--top a,b: expected percentages" in wrong.stderr
    assert {several.exit_code, no_table.exit_code, wrong.exit_code} == {1}
