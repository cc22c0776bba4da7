import json
import re
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from repalign.disentanglement.results import COLUMNS
from repalign.store.map_file import load_map
from tests.cli.commands import lines
from tests.cli.commands.lines import rows_of

invoke = partial(lines.invoke, "disentangle")
run = partial(lines.printed, "disentangle")

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


def test_piped_stdout_is_tidy_csv_and_warnings_go_to_stderr(latents) -> None:
    result = invoke(*latents, *QUICK)
    rows = rows_of(result.stdout)
    assert list(rows[0]) == list(COLUMNS)
    assert {row["condition"] for row in rows} == {"raw", "pca", "pca+ica", "pca+rotation", "ica"}
    assert rows[0]["score"] == "InfoE"
    assert "raw: 1 of 4 latents" in result.stderr
    assert "row order" not in result.stderr
    found = {(row["condition"], row["score"]): float(row["value"]) for row in rows}
    assert found["ica", "MCC-pearson"] > 0.98 > 0.95 > found["raw", "MCC-pearson"]


def test_the_table_shows_value_interval_and_null(latents) -> None:
    text = run(*latents, *QUICK, "-f", "table")
    for part in ("InfoE ↑", "95 %", "factors shuffled", "\n  p  ", "whitening)"):
        assert part in text
    assert "raw: 3 of 4 latents" in text


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
    assert "factors" in modularity["reason"]
    table = run(*arguments, "--factor", "hue", "-f", "table")
    assert f"raw, InfoM: {modularity['reason']}" in table
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
    lines.printed("apply", str(folder / "pca-ica.safetensors"), latents[0], "-o", mapped)
    again = invoke(*arguments)
    assert again.exit_code == 1
    assert "exists" in again.stderr
    assert invoke(*arguments, "--overwrite").exit_code == 0


def test_without_factors_it_is_wrong_usage(latents) -> None:
    result = invoke(latents[0])
    assert result.exit_code == 2
    assert "--factors" in result.stderr


@pytest.mark.parametrize("arguments", [["--label", "a"], ["--batch", "b", "--label", "a"]])
def test_the_study_of_batches_is_said_to_have_moved(latents, arguments) -> None:
    for words in ([latents[0], *arguments], [*latents, *arguments]):
        result = invoke(*words)
        assert result.exit_code == 2
        assert "repalign deconfound" in result.stderr


def test_groups_are_a_column_of_the_table(latents, tmp_path: Path) -> None:
    frame = pd.read_csv(latents[2])
    frame["object"] = frame["shape"] * 100 + frame["hue"] * 10 + frame["x"]
    frame.to_csv(latents[2], index=False)
    rows = rows_of(run(*latents, *QUICK, "--conditions", "raw", "--groups", "object"))
    assert {row["n_factors"] for row in rows} == {"3"}
    assert {row["n_groups"] for row in rows} == {str(frame["object"].nunique())}
    assert {row["null_scheme"] for row in rows} == {"groups"}
    table = run(*latents, *QUICK, "--conditions", "raw", "--groups", "object", "-f", "table")
    assert "60 groups" in table
    assert "whole groups" in table


def test_the_built_in_digits_have_factors(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "e.npz", embeddings=rng.normal(size=(50, 3)), ids=np.arange(50).astype(str))
    arguments = [str(tmp_path / "e.npz"), "--factors", "builtin:digits", *QUICK]
    rows = rows_of(run(*arguments, "--conditions", "raw"))
    assert {row["n_factors"] for row in rows} == {"5"}


def test_what_cannot_be_written_is_refused_before_anything_is_computed(
    latents, tmp_path: Path
) -> None:
    """The factors do not even exist."""
    wrong = [latents[0], "--factors", str(tmp_path / "none.csv")]
    (tmp_path / "fits").mkdir()
    (tmp_path / "fits" / "pca.safetensors").touch()
    for arguments, message in (
        (["--plot", str(tmp_path / "matrix.xyz")], "'.xyz'"),
        (["--plot", str(tmp_path / "none" / "a.png")], "no directory"),
        (["--save-transform", str(tmp_path / "fits")], "pca.safetensors"),
        (["--output", str(tmp_path / "a.xyz")], "'.xyz'"),
    ):
        result = invoke(*wrong, *arguments)
        assert result.exit_code == 1
        assert message in result.stderr


def test_too_little_memory_is_refused_and_device_and_memory_are_told(latents) -> None:
    result = invoke(*latents, *QUICK, "--memory", "10KiB")
    assert result.exit_code == 1
    assert "--memory" in result.stderr
    told = invoke(*latents, *QUICK, "--memory", "1GiB", "--device", "cpu", "--verbose")
    assert "device cpu" in told.stderr
    assert "1 GiB" in told.stderr


def test_the_table_is_readable_in_eighty_columns(latents, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    once = run("latents.npy", "--factors", "factors.csv", *QUICK, "-f", "table").splitlines()
    assert max(len(line) for line in once) <= 80
    assert [line.split() for line in once[1:3]] == [
        ["pca+random", "ica", "(no"],
        ["raw", "pca", "pca+ica", "rotation", "whitening)"],
    ]
    seeds = ("--seeds", "2", "-f", "table")
    twice = run("latents.npy", "--factors", "factors.csv", *QUICK, *seeds).splitlines()
    assert max(len(line) for line in twice) <= 80
    assert sum("whitening)" in line for line in twice) == 1


def test_discrete_latents_are_scored_raw_without_being_told(latents) -> None:
    rows = rows_of(run(*latents, *QUICK, "--scores", "infomec", "--discrete-latents"))
    assert {row["condition"] for row in rows} == {"raw"}


def test_dci_says_that_it_has_neither_null_nor_interval(latents) -> None:
    arguments = [*latents, "--scores", "dci,mcc", "--null", "2", "--halves", "2", "--factor", "hue"]
    table = run(*arguments, "--conditions", "raw", "--max-rows", "90", "-f", "table")
    assert re.search(r"DCI .*null.* interval", table)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--discrete", "x", "--continuous", "x"], "x is declared"),
        (["--factor", "size"], "'size'"),
        (["--plot", "matrix.xyz"], "--plot matrix.xyz"),
        (["--groups", "scene"], "'scene'"),
    ],
)
def test_impossible_requests_are_one_line_and_exit_1(latents, arguments, message: str) -> None:
    result = invoke(*latents, "--null", "0", "--halves", "0", *arguments)
    assert result.exit_code == 1
    assert message in result.stderr


def test_embeddings_and_factors_of_one_file_have_no_column_in_common(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((200, 3)), columns=["a", "b", "c"])
    frame.assign(size=rng.integers(0, 3, 200), scene=np.arange(200) // 5).to_csv(
        tmp_path / "all.csv", index=False
    )
    path = str(tmp_path / "all.csv")
    words = [path, "--factors", path, "--groups", "scene", "--scores", "mcc", "--conditions", "raw"]

    result = invoke(*words, "--factor", "size")

    assert rows_of(result.stdout)[0]["n_latents"] == "3"
    assert re.search(r"a, b, c\b.* size, scene", result.stderr)
    refused = invoke(*words)
    assert refused.exit_code == 1
    assert "--factor" in refused.stderr
