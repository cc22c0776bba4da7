import re
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from repalign.deconfounding.results import COLUMNS
from tests.cli.commands import lines
from tests.cli.commands.lines import rows_of

invoke = partial(lines.invoke, "deconfound")
run = partial(lines.printed, "deconfound")


@pytest.fixture
def cells(tmp_path: Path) -> list[str]:
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


def test_labels_are_judged_on_held_out_batches(cells) -> None:
    rows = rows_of(run(*cells, "--label", "perturbed"))
    assert list(rows[0]) == list(COLUMNS)
    assert {row["condition"] for row in rows} == {"raw", "pca", "pca+ica", "pca+rotation"}
    auroc = next(row for row in rows if (row["condition"], row["measure"]) == ("raw", "AUROC"))
    assert float(auroc["value"]) > 0.8
    assert auroc["n_folds"] == "5"


def test_the_deconfounding_table_in_every_layout(cells) -> None:
    arguments = [*cells, "--label", "gene", "--control", "none", "--conditions", "raw,pca"]
    table = run(*arguments, "-f", "table")
    for part in ("AUROC ↑", "gene=HCK", "(mean over labels)", "top 25 %", "chance .200"):
        assert part in table
    latex = run(*arguments, "-f", "latex")
    assert r"AUROC $\uparrow$" in latex
    assert r"gene=SRC & " in latex
    assert "| gene=SRC |" in run(*arguments, "-f", "markdown")


def test_both_protocols_and_workers(cells) -> None:
    arguments = [
        *cells, "--label", "perturbed", "--protocols", "leave-batches-out,train-on-one",
        "--conditions", "raw", "--workers", "2",
        "--fit-on", "train",
    ]  # fmt: skip
    first = run(*arguments)
    assert {row["protocol"] for row in rows_of(first)} == {
        "leave-batches-out", "train-on-one", "rows",
    }  # fmt: skip
    assert run(*arguments) == run(*arguments, "--no-cache") == first


def test_the_embeddings_own_table_can_hold_the_columns(cells, tmp_path: Path) -> None:
    frame = pd.read_csv(tmp_path / "wells.csv")[["perturbed", "plate"]]
    path = tmp_path / "all.npz"
    np.savez(path, embeddings=np.load(cells[0]), **{n: frame[n].to_numpy() for n in frame})
    rows = rows_of(
        run(f"{path}::embeddings", "--table", str(path), "--label", "perturbed", "--batch", "plate")
    )
    assert rows[0]["n_batches"] == "5"


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_features_beside_the_label_are_listed_and_the_label_is_none(
    tmp_path: Path, suffix: str
) -> None:
    pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((300, 3)), columns=["a", "b", "c"])
    frame = frame.assign(
        treated=rng.integers(0, 2, 300), plate=np.arange(300) % 6, Metadata_Well="B02"
    )
    path = tmp_path / f"cells.{suffix}"
    frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path)
    words = ["--label", "treated", "--batch", "plate", "--conditions", "raw", "--top", "50"]

    result = invoke(str(path), *words)

    auroc = next(row for row in rows_of(result.stdout) if row["measure"] == "AUROC")
    assert abs(float(auroc["value"]) - 0.5) < 0.1
    assert re.search("a, b, c\\b.* treated, plate, Metadata_Well", result.stderr)
    frame.assign(code=1 - frame["treated"]).to_csv(path.with_suffix(".csv"))
    refused = invoke(str(path.with_suffix(".csv")), *words)
    assert refused.exit_code == 1
    assert "'code'" in refused.stderr


def test_half_a_question_is_wrong_usage(cells) -> None:
    for option, value, missing in (
        ("--label", "perturbed", "--batch"),
        ("--batch", "plate", "--label"),
    ):
        result = invoke(cells[0], "--table", cells[2], option, value)
        assert result.exit_code == 2
        assert missing in result.stderr
    assert invoke(*cells, "--label", "perturbed", "--plot", "a.png").exit_code == 2
    assert invoke(*cells, "--label", "perturbed", "--factors", "a.csv").exit_code == 2
    assert invoke(cells[0], *cells, "--label", "perturbed").exit_code == 2


def test_labels_need_a_table_and_percentages(cells) -> None:
    no_table = invoke(cells[0], "--label", "perturbed", "--batch", "plate")
    assert no_table.exit_code == 1
    assert "--table" in no_table.stderr
    wrong = invoke(*cells[:-2], "--label", "perturbed", "--top", "a,b")
    assert wrong.exit_code == 2
    assert "'a'" in wrong.stderr
    much = invoke(*cells[:-2], "--label", "perturbed", "--top", "120")
    assert much.exit_code == 1
    assert "120.0" in much.stderr


def test_the_table_is_readable_in_eighty_columns(cells, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = run(
        "cells.npy",
        "--table",
        "wells.csv",
        *cells[3:],
        "--label",
        "gene",
        "--control",
        "none",
        "-f",
        "table",
    )
    assert max(len(line) for line in text.splitlines()) <= 80


def test_too_little_memory_is_refused(cells) -> None:
    result = invoke(*cells, "--label", "perturbed", "--memory", "10KiB")
    assert result.exit_code == 1
    assert "--memory" in result.stderr


def test_the_transforms_are_saved(cells, tmp_path: Path) -> None:
    folder = tmp_path / "fits"
    arguments = [*cells, "--label", "perturbed", "--conditions", "pca", "--permuted", "0"]
    run(*arguments, "--save-transform", str(folder))
    assert [one.name for one in folder.iterdir()] == ["pca.safetensors"]
