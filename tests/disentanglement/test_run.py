import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from repalign.conditions.settings import TransformSettings
from repalign.disentanglement.run import disentangle
from repalign.disentanglement.settings import FactorSettings
from repalign.engine.machine import Machine
from repalign.exceptions import InputError, RowMismatchError
from repalign.store.index import RowIndex
from repalign.store.open import as_source

QUICK = FactorSettings(
    scores=("infomec", "mcc"),
    n_null=3,
    n_halves=3,
    transform=TransformSettings(conditions=("raw", "pca+ica")),
)


def planted(seed: int, *, gaussian: bool = False, n_rows: int = 1500):
    """Four factors, turned by a random rotation, beside two latents that hardly move."""
    rng = np.random.default_rng(seed)
    if gaussian:
        sources = rng.normal(size=(n_rows, 4))
    else:
        sources = np.stack([rng.integers(0, k, n_rows) for k in (3, 4, 5, 6)], axis=1)
    scaled = (sources - sources.mean(axis=0)) / sources.std(axis=0)
    rotation = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    latents = scaled @ rotation + 0.05 * rng.normal(size=(n_rows, 4))
    factors = dict(zip(("shape", "hue", "x", "y"), sources.T, strict=True))
    return np.column_stack([latents, 1e-3 * rng.normal(size=(n_rows, 2))]), factors


def score(result, condition: str, name: str) -> float:
    frame = result.to_frame()
    return frame[(frame.condition == condition) & (frame.score == name)].value.item()


@pytest.mark.parametrize("seed", range(10))
def test_planted_factors_are_found_after_ica_and_not_before(seed: int) -> None:
    latents, factors = planted(seed)
    settings = FactorSettings(
        scores=("infomec", "mcc"),
        n_null=0,
        n_halves=0,
        seed=seed,
    )
    result = disentangle(latents, factors, settings=settings)
    for condition in ("pca+ica", "ica"):
        assert score(result, condition, "MCC-pearson") > 0.97
    for condition in ("raw", "pca", "pca+rotation"):
        assert score(result, condition, "MCC-pearson") < 0.9
    assert score(result, "ica", "InfoM") > 0.9
    assert score(result, "raw", "InfoM") < 0.8
    explicit = [score(result, name, "InfoE") for name in ("raw", "pca", "pca+ica", "ica")]
    assert np.ptp(explicit) < 0.01


@pytest.mark.parametrize("seed", range(3))
def test_gaussian_factors_are_not_found_by_ica(seed: int) -> None:
    latents, factors = planted(seed, gaussian=True)
    result = disentangle(latents, factors, settings=QUICK)
    assert score(result, "pca+ica", "MCC-pearson") < 0.9


def test_every_record_has_null_interval_and_conventions() -> None:
    latents, factors = planted(0)
    result = disentangle(latents, factors, settings=QUICK)
    frame = result.to_frame()
    assert set(frame.condition) == {"raw", "pca+ica"}
    assert frame[["value", "ci_low", "ci_high", "null", "p_value"]].notna().all(axis=None)
    row = frame[(frame.condition == "pca+ica") & (frame.score == "InfoE")].iloc[0]
    assert (row.n_rows, row.n_latents, row.n_factors) == (1500, 6, 4)
    assert row.converged
    assert row.ica_solver == "picard"
    assert row["null"] < 0.05 < row.value


def test_pruned_latents_are_named_and_kept_in_the_matrix() -> None:
    latents, factors = planted(0)
    result = disentangle(latents, factors, settings=QUICK)
    raw = result.matrices[0]
    assert raw.pruned == (4, 5)
    assert raw.nmi.shape == (4, 6)
    assert any("raw: 2 of 6 latents" in text for text in result.warnings)
    assert result.to_dict()["matrices"][0]["pruned_latents"] == [4, 5]


def test_transforms_reproduce_the_scored_latents() -> None:
    latents, factors = planted(0)
    result = disentangle(latents, factors, settings=QUICK)
    components = result.transforms["latents", "latents", "pca+ica"].apply(latents)
    assert np.cov(components.T, bias=True) == pytest.approx(np.eye(6), abs=1e-4)


def test_seeds_repeat_what_is_random_and_nothing_else() -> None:
    latents, factors = planted(0)
    settings = FactorSettings(scores=("mcc",), n_null=0, n_halves=0, n_seeds=3)
    frame = disentangle(latents, factors, settings=settings).to_frame()
    seeds = frame.groupby("condition").seed.nunique().to_dict()
    assert seeds == {"raw": 1, "pca": 1, "pca+ica": 3, "pca+rotation": 3, "ica": 3}
    rotated = frame[(frame.condition == "pca+rotation") & (frame.score == "MCC-pearson")]
    assert rotated.value.nunique() == 3


def test_two_sources_are_scored_side_by_side() -> None:
    latents, factors = planted(0)
    sources = [as_source(latents, name="good"), as_source(latents[:, 4:], name="bad")]
    result = disentangle(sources, factors, settings=QUICK)
    frame = result.to_frame()
    explicit = frame[(frame.score == "InfoE") & (frame.condition == "raw")].set_index("source")
    assert explicit.value["good"] > 0.9 > 0.1 > explicit.value["bad"]


def test_factors_are_joined_by_id_whatever_their_order(tmp_path: Path) -> None:
    latents, factors = planted(0, n_rows=400)
    ids = [f"image {i}" for i in range(400)]
    frame = pd.DataFrame({"id": ids, **factors}).sample(frac=1, random_state=0)
    frame.to_csv(tmp_path / "factors.csv", index=False)

    source = as_source(latents, ids=ids, name="latents")
    joined = disentangle(source, tmp_path / "factors.csv", settings=QUICK)
    ordered = disentangle(latents, factors, settings=QUICK)

    assert score(joined, "raw", "InfoM") == score(ordered, "raw", "InfoM")
    assert not any("row order" in text for text in joined.warnings)
    assert any("row order" in text for text in ordered.warnings)


def test_rows_without_factors_are_refused_or_left_out() -> None:
    latents, factors = planted(0, n_rows=400)
    ids = [str(i) for i in range(400)]
    table = {"id": ids[3:], **{name: values[3:] for name, values in factors.items()}}
    source = as_source(latents, ids=ids, name="latents")
    with pytest.raises(RowMismatchError, match=r" 3 of the 400 rows .*'0'"):
        disentangle(source, table, settings=QUICK)
    settings = FactorSettings(
        scores=("mcc",), n_null=0, n_halves=0,
        transform=TransformSettings(conditions=("raw",)), on_mismatch="intersect",
    )  # fmt: skip
    result = disentangle(source, table, settings=settings)
    assert result.records[0].n_rows == 397
    assert any("left out" in text for text in result.warnings)


def test_rows_with_a_missing_value_are_left_out_and_counted() -> None:
    latents, factors = planted(0, n_rows=400)
    factors["x"] = np.where(np.arange(400) < 5, np.nan, factors["x"])
    result = disentangle(latents, factors, settings=QUICK)
    assert result.records[0].n_rows == 395
    assert any(re.search(r"\b5 rows .*\bx\b", text) for text in result.warnings)


def test_a_condition_that_cannot_be_fitted_does_not_cost_the_others() -> None:
    _, factors = planted(0, n_rows=400)
    few = {name: values[:12] for name, values in factors.items()}
    wide = np.random.default_rng(0).normal(size=(12, 30))
    settings = FactorSettings(scores=("infomec", "r2"), n_null=0, n_halves=0)
    result = disentangle(wide, few, settings=settings)
    frame = result.to_frame()
    assert set(frame.condition) == {"raw", "pca", "pca+ica", "pca+rotation"}
    assert any(re.search("ica was left out: .*whitening", text) for text in result.warnings)
    explicit = frame[(frame.score == "InfoE") & (frame.condition == "raw")].iloc[0]
    assert re.search("12 rows .*30 latents", explicit.reason)


def test_a_condition_that_cannot_be_fitted_does_not_end_repetitions() -> None:
    wide = np.random.default_rng(0).normal(size=(12, 30))
    settings = FactorSettings(
        scores=("mcc",), n_null=0, n_halves=0, n_seeds=2,
        transform=TransformSettings(conditions=("raw", "ica")),
    )  # fmt: skip
    result = disentangle(wide, {"a": np.arange(12) % 3}, settings=settings)
    assert {record.condition for record in result.records} == {"raw"}
    assert sum("ica was left out" in text for text in result.warnings) == 1


def test_when_no_condition_can_be_fitted_it_is_said_why() -> None:
    settings = FactorSettings(transform=TransformSettings(conditions=("pca", "ica")))
    with pytest.raises(InputError, match=r"pca was left out: .*vary"):
        disentangle(np.ones((20, 3)), {"a": np.arange(20) % 2}, settings=settings)


def test_different_numbers_of_rows_without_ids_are_refused() -> None:
    latents, factors = planted(0, n_rows=400)
    with pytest.raises(RowMismatchError, match=r" 400 rows .*latents 399"):
        disentangle(latents[:399], factors, settings=QUICK)


def test_rows_are_drawn_where_there_are_too_many() -> None:
    latents, factors = planted(0)
    settings = FactorSettings(
        scores=("mcc",), n_null=0, n_halves=0, max_rows=500,
        transform=TransformSettings(conditions=("raw",)),
    )  # fmt: skip
    result = disentangle(latents, factors, settings=settings)
    assert result.records[0].n_rows == 500
    assert any("500 of 1500 rows" in text for text in result.warnings)


def test_progress_counts_the_tasks_of_every_stage() -> None:
    latents, factors = planted(0, n_rows=300)
    seen: list[tuple[str, int, int]] = []
    machine = Machine(on_stage=lambda stage, done, total: seen.append((stage, done, total)))
    disentangle(latents, factors, settings=QUICK, machine=machine)
    stages = {stage: total for stage, _, total in seen}
    assert stages == {"conditions": 2, "scores": 2, "shuffles and half-samples": 4}
    for stage, total in stages.items():
        assert [done for name, done, _ in seen if name == stage] == list(range(total))


def test_codes_cannot_be_whitened() -> None:
    with pytest.raises(InputError, match="condition raw"):
        FactorSettings(discrete_latents=True)


def test_discrete_latents_are_scored_raw() -> None:
    _, factors = planted(0, n_rows=300)
    codes = np.stack(list(factors.values()), axis=1)[:, ::-1].astype(float)
    settings = FactorSettings(
        discrete_latents=True, scores=("infomec",), n_null=0, n_halves=0,
        transform=TransformSettings(conditions=("raw",)),
    )  # fmt: skip
    result = disentangle(codes, factors, settings=settings)
    assert score(result, "raw", "InfoM") > 0.95


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_seeds": 0}, "n_seeds: got 0"),
        ({"n_null": -1}, "n_null: got -1"),
        ({"infomec": "standrd"}, "infomec: got 'standrd'"),
        ({"scores": ("beta",)}, "scores: got beta"),
        ({"on_mismatch": "merge"}, "on_mismatch: got 'merge'"),
        ({"discrete": ("x",), "continuous": ("x",)}, "discrete and continuous"),
    ],
)
def test_impossible_settings_are_refused(arguments, message: str) -> None:
    with pytest.raises(InputError, match=message):
        FactorSettings(**arguments)


def test_nothing_to_score_is_refused() -> None:
    with pytest.raises(InputError, match="no embeddings"):
        disentangle([], {"a": [1, 2]})


def test_the_matrices_are_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    latents, factors = planted(0, n_rows=300)
    figure = disentangle(latents, factors, settings=QUICK).plot()
    assert [axis.get_title() for axis in figure.axes[:2]] == ["raw", "pca+ica"]
    figure.savefig(tmp_path / "matrix.png")


def in_groups(n_groups: int = 30, size: int = 10):
    """Latents and factors that are the same in all rows of a group but for noise, unrelated."""
    rng = np.random.default_rng(0)
    member = np.repeat(np.arange(n_groups), size)
    latents = rng.normal(size=(n_groups, 3))[member] + 0.3 * rng.normal(size=(member.size, 3))
    table = {
        "shape": rng.integers(0, 3, n_groups)[member],
        "hue": rng.integers(0, 4, n_groups)[member],
        "scene": np.array([f"scene {group}" for group in member]),
    }
    return latents, table, member


GROUPED = FactorSettings(
    scores=("mcc",), n_null=19, n_halves=10, transform=TransformSettings(conditions=("raw",))
)


@pytest.mark.parametrize("way", ["column", "file", "values", "samples"])
def test_groups_are_found_wherever_they_stand(way: str, tmp_path: Path) -> None:
    latents, table, member = in_groups()
    settings = replace(GROUPED, factors=("shape", "hue"))
    (tmp_path / "scenes.txt").write_text("\n".join(table["scene"]) + "\n")
    groups = {"column": "scene", "file": tmp_path / "scenes.txt", "values": member}.get(way)
    source = as_source(latents, name="latents")
    if way == "samples":
        tokens = np.tile(np.arange(10), 30).astype(np.int32)
        source = replace(source, index=RowIndex(member, tokens))
    frame = disentangle([source], table, groups=groups, settings=settings).to_frame()
    assert set(frame.n_groups) == {30}
    assert set(frame.null_scheme) == {"groups"}
    assert frame.p_value[0] > 0.05
    alone = disentangle([as_source(latents)], table, settings=settings).to_frame()
    assert alone.null_scheme[0] == "rows"
    assert alone.p_value[0] == pytest.approx(0.05)


def test_the_column_of_groups_is_no_factor_unless_it_is_asked_for() -> None:
    latents, table, _ = in_groups()
    result = disentangle(latents, table, groups="scene", settings=GROUPED)
    assert result.matrices[0].factors == ("shape", "hue")
    asked = replace(GROUPED, factors=("scene", "hue"))
    result = disentangle(latents, table, groups="scene", settings=asked)
    assert result.matrices[0].factors == ("scene", "hue")


def test_factors_that_vary_in_groups_say_how_they_are_shuffled() -> None:
    latents, table, _ = in_groups()
    table["x"] = np.random.default_rng(1).normal(size=300)
    result = disentangle(latents, table, groups="scene", settings=GROUPED)
    assert result.records[0].null_scheme == "runs of groups"
    assert result.records[0].null_rows == 300
    assert any("inside the 30 groups" in text for text in result.warnings)


def test_few_groups_are_told_and_give_no_p_value() -> None:
    latents, table, _ = in_groups(n_groups=4)
    result = disentangle(latents, table, groups="scene", settings=GROUPED)
    record = result.records[0]
    assert record.p_value is None
    assert record.null is not None
    assert any(re.search("no p-value: .* 4 groups", text) for text in result.warnings)
    assert record.ci_low is None
    assert any("no interval: 4 groups" in text for text in result.warnings)


@pytest.mark.parametrize(
    ("largest", "says"),
    [
        (10, None),
        (150, "30 groups (worth 7.6"),
        (900, "30 groups (worth 1.7"),
    ],
)
def test_groups_that_are_worth_few_are_told_like_few(largest: int, says: str | None) -> None:
    rng = np.random.default_rng(0)
    member = np.repeat(np.arange(30), [largest, *[10] * 29])
    latents, shape = rng.normal(size=(member.size, 3)), rng.integers(0, 3, member.size)
    settings = replace(GROUPED, n_null=0)
    result = disentangle(latents, {"shape": shape}, groups=member, settings=settings)
    told = [text for text in result.warnings if "interval" in text]
    assert len(told) == (says is not None)
    assert says is None or says in told[0]
    assert (result.records[0].ci_low is None) == (says is not None)


def test_rows_are_drawn_in_whole_groups() -> None:
    latents, table, _ = in_groups()
    settings = replace(GROUPED, max_rows=95)
    result = disentangle(latents, table, groups="scene", settings=settings)
    assert (result.records[0].n_rows, result.records[0].n_groups) == (90, 9)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ("scenes", "'scenes'"),
        ([1, 2], "groups: got 2 .*300 rows"),
    ],
)
def test_groups_that_are_none_are_refused(groups, message: str) -> None:
    latents, table, _ = in_groups()
    with pytest.raises(InputError, match=message):
        disentangle(latents, table, groups=groups, settings=GROUPED)


def test_more_rows_than_fit_into_the_memory_are_refused_before_anything_is_computed() -> None:
    latents, factors = planted(0)
    with pytest.raises(InputError, match=r"latents: .*1500 rows of 6 .*memory_bytes"):
        disentangle(latents, factors, machine=Machine(memory_bytes=2**16))


def test_the_conventions_stand_in_every_record() -> None:
    latents, factors = planted(0, n_rows=300)
    record = disentangle(latents, factors, settings=QUICK).to_records()[0]
    assert record["ica_contrast"] == "logcosh"
    assert record["ica_passes"] == 400
    assert (record["bins"], record["n_halves"], record["discrete_latents"]) == (20, 3, False)


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".h5ad", "frame"])
def test_latents_keep_the_names_that_their_file_has(suffix: str, tmp_path: Path) -> None:
    latents, factors = planted(0, n_rows=300)
    names = ["tail", "ear", "paw", "nose", "dust", "fluff"]
    frame = pd.DataFrame(latents, columns=names, index=[f"cat {row}" for row in range(300)])
    path = tmp_path / f"latents{suffix}"
    if suffix == ".csv":
        frame.to_csv(path)
    elif suffix == ".parquet":
        pytest.importorskip("pyarrow")
        frame.reset_index(names="id").to_parquet(path)
    elif suffix == ".h5ad":
        pytest.importorskip("anndata").AnnData(frame).write_h5ad(path)
    table = {"id": frame.index.to_numpy(), **factors}
    result = disentangle(frame if suffix == "frame" else path, table, settings=QUICK)
    raw, components = result.matrices
    assert raw.latents == tuple(names)
    assert components.latents == ("0", "1", "2", "3", "4", "5")
    assert any("(latents dust, fluff)" in t for t in result.warnings)
    assert result.to_dict()["matrices"][0]["latents"] == names
