import re
from pathlib import Path

import numpy as np
import pytest
from pandas.testing import assert_frame_equal

from repalign.conditions.settings import TransformSettings
from repalign.core.conditions.fit import ConditionFitter
from repalign.deconfounding.run import deconfound
from repalign.deconfounding.settings import BatchSettings
from repalign.deconfounding.tasks import LabelTask
from repalign.deconfounding.units import FoldInputs, list_units, run_unit
from repalign.engine.cache import Cache
from repalign.engine.engine import Engine, ThreadPool
from repalign.engine.machine import Machine
from repalign.exceptions import InputError

pytest.importorskip("lightgbm")

QUICK = BatchSettings(
    top_percent=(25,), rounds=20, transform=TransformSettings(conditions=("raw", "pca+ica"))
)


def planted(seed: int, n_rows: int = 600, n_batches: int = 6):
    """A label on one source, batches on six others, all mixed by a random matrix."""
    rng = np.random.default_rng(seed)
    batches = np.arange(n_rows) % n_batches
    labels = rng.integers(0, 2, n_rows)
    sources = rng.laplace(size=(n_rows, 16)) / np.sqrt(2)
    sources[:, 0] += 1.5 * labels
    sources[:, 1:7] += (3 * rng.normal(size=(n_batches, 6)))[batches]
    left, right = (np.linalg.qr(rng.normal(size=(16, 16)))[0] for _ in range(2))
    values = sources @ (left * np.geomspace(1, 0.1, 16) @ right)
    return values, {"perturbed": labels, "plate": np.array([f"plate {b}" for b in batches])}


def run(seed: int = 0, settings: BatchSettings = QUICK, **changes):
    values, columns = planted(seed)
    return deconfound(
        values, columns, labels=["perturbed"], batch="plate", settings=settings, **changes
    )


def value(result, condition: str, measure: str) -> float:
    frame = result.to_frame()
    return frame[(frame.condition == condition) & (frame.measure == measure)].value.item()


@pytest.mark.slow
def test_a_planted_label_is_told_better_after_ica_with_the_random_rotation_between() -> None:
    """Held-out AUROC over ten seeds: raw < random rotation < ICA, each time."""
    found = []
    for seed in range(10):
        values, columns = planted(seed, n_rows=2000, n_batches=10)
        settings = BatchSettings(
            top_percent=(), n_permuted=0, judge_batches=False,
            transform=TransformSettings(conditions=("raw", "pca+rotation", "pca+ica")), seed=seed,
        )  # fmt: skip
        result = deconfound(values, columns, labels=["perturbed"], batch="plate", settings=settings)
        found.append([value(result, name, "AUROC") for name in ("raw", "pca+rotation", "pca+ica")])
    raw, rotated, ica = np.array(found).T
    assert (ica > rotated).all()
    assert (ica > raw).all()
    differences = rotated - raw
    assert differences.mean() > 2 * differences.std(ddof=1) / np.sqrt(10)


def test_every_measure_has_its_record() -> None:
    result = run()
    frame = result.to_frame()
    raw = frame[frame.condition == "raw"].set_index("measure")
    assert list(raw.index) == [
        "AUROC", "Hoyer", "AUROC-top", "AUROC-rest", "concentration-difference",
        "concentration-relative", "concentration-above-chance", "AUROC-permuted",
        "batch-accuracy",
    ]  # fmt: skip
    assert raw.n_folds["AUROC"] == 5
    assert raw.top_share["AUROC-top"] == 0.25
    assert raw.value["AUROC"] > 0.6
    assert abs(raw["null"]["AUROC"] - 0.5) < 0.1
    assert raw["null"]["AUROC"] == raw.value["AUROC-permuted"]
    assert raw["null"]["batch-accuracy"] == pytest.approx(1 / 6)
    assert raw.value["batch-accuracy"] > 0.5
    assert raw.n_positive["AUROC"] == planted(0)[1]["perturbed"].sum()


def test_workers_do_not_change_the_result() -> None:
    alone = run().to_frame()
    together = run(executor=ThreadPool(3)).to_frame()
    assert alone.equals(together)


@pytest.mark.parametrize(("fit_on", "is_blind"), [("train", True), ("all", False)])
def test_a_fit_on_the_training_batches_is_blind_to_held_out_rows(
    fit_on: str, *, is_blind: bool
) -> None:
    """Rows of a held-out batch that are not judged themselves are moved far away."""
    values, columns = planted(0)
    settings = BatchSettings(
        fit_on=fit_on, n_permuted=0, judge_batches=False, rounds=20, top_percent=(),
        transform=TransformSettings(conditions=("pca",)),
    )  # fmt: skip
    moved = values.copy()
    task = LabelTask("perturbed", np.arange(0, 600, 5), columns["perturbed"][::5])
    unit = next(list_units((task,), ("pca",), columns["plate"], settings))
    held_out = np.isin(columns["plate"], columns["plate"][task.rows[unit.fold.test]])
    held_out[task.rows] = False
    moved[held_out] *= 1000 * np.random.default_rng(0).normal(size=16)

    before, after = (
        run_unit(Machine(), unit, inputs_of(rows, columns["plate"], settings))
        for rows in (values, moved)
    )

    assert held_out.any()
    assert (before == after) is is_blind


def inputs_of(values: np.ndarray, plates: np.ndarray, settings: BatchSettings) -> FoldInputs:
    fitter = ConditionFitter(values, settings.transform.fitted_ica)
    fitted = {"pca": fitter.fit("pca")}
    return FoldInputs(values, fitted, plates, settings, fitter.ica, workers=1)


def test_a_small_memory_changes_no_number_and_too_small_a_one_is_refused() -> None:
    """600 × 16 rows: the raw ones and a worker's take 150 KiB, each condition 75 KiB more."""
    ample = run().to_frame()
    scarce = run(machine=Machine(memory_bytes=160 * 2**10)).to_frame()
    assert_frame_equal(scarce, ample, rtol=1e-6)
    with pytest.raises(InputError, match=r"600 rows of 16 .*--memory"):
        run(machine=Machine(memory_bytes=100 * 2**10))


def test_the_paper_s_second_protocol_trains_on_one_batch() -> None:
    settings = BatchSettings(**{**QUICK.__dict__, "protocols": ("train-on-one",)})
    frame = run(settings=settings).to_frame()
    auroc = frame[frame.measure == "AUROC"]
    assert set(auroc.protocol) == {"train-on-one"}
    assert set(auroc.n_folds) == {6}


def test_a_finished_fold_is_not_computed_again(tmp_path: Path) -> None:
    cache = Cache(tmp_path, 2**30)
    first = run(executor=Engine(cache)).to_frame()
    folds = {path: path.stat().st_ino for path in tmp_path.glob("fold-*")}
    assert len(folds) == 2 * (5 + 5 + 1)
    lost = min(folds)
    lost.unlink()
    assert run(executor=Engine(cache)).to_frame().equals(first)
    again = {path: path.stat().st_ino for path in tmp_path.glob("fold-*")}
    assert again.keys() == folds.keys()
    assert {path for path in folds if again[path] != folds[path]} <= {lost}


def test_other_settings_do_not_take_up_finished_folds(tmp_path: Path) -> None:
    cache = Cache(tmp_path, 2**30)
    run(executor=Engine(cache))
    other = BatchSettings(**{**QUICK.__dict__, "rounds": 25})
    assert (
        run(executor=Engine(cache), settings=other)
        .to_frame()
        .equals(run(settings=other).to_frame())
    )


def test_other_rows_do_not_take_up_finished_folds(tmp_path: Path) -> None:
    """The same labels and batches on other rows: what was kept is of other values."""
    values, columns = planted(0)
    columns = {name: np.concatenate([column, column]) for name, column in columns.items()}
    halves = []
    for first in (True, False):
        known = (np.arange(1200) < 600) == first
        columns["perturbed"] = np.where(
            known, planted(0)[1]["perturbed"][np.arange(1200) % 600], np.nan
        )
        result = deconfound(
            np.concatenate([values, -values[::-1]]), columns, labels=["perturbed"], batch="plate",
            settings=QUICK, executor=Engine(Cache(tmp_path, 2**30)),
        )  # fmt: skip
        halves.append(value(result, "raw", "AUROC"))
    assert halves[0] != halves[1]


def test_each_gene_is_judged_against_the_control_and_averaged() -> None:
    values, columns = planted(0)
    genes = np.where(columns["perturbed"] == 0, "control", "MTOR")
    genes[(columns["perturbed"] == 1) & (np.arange(600) % 4 < 2)] = "SRC"
    settings = BatchSettings(**{**QUICK.__dict__, "control": "control"})
    result = deconfound(
        values, {**columns, "gene": genes}, labels=["gene"], batch="plate", settings=settings
    )
    frame = result.to_frame()
    auroc = frame[(frame.measure == "AUROC") & (frame.condition == "raw")].set_index("label")
    assert list(auroc.index) == ["gene=MTOR", "gene=SRC", "(mean over labels)"]
    assert auroc.value["(mean over labels)"] == pytest.approx(auroc.value[:2].mean())
    assert auroc.n_rows["gene=SRC"] == np.isin(genes, ["SRC", "control"]).sum()


def test_one_impossible_label_does_not_cost_the_others() -> None:
    values, columns = planted(0)
    result = deconfound(
        values,
        {**columns, "same": np.zeros(600, dtype=int)},
        labels=["same", "perturbed"],
        batch="plate",
        settings=QUICK,
    )
    frame = result.to_frame()
    same = frame[(frame.label == "same") & (frame.measure == "AUROC")].iloc[0]
    assert np.isnan(same.value)
    assert re.search("values 0; .*0 and 1", same.reason)
    assert frame[(frame.label == "perturbed") & (frame.measure == "AUROC")].value.notna().all()
    assert any(text.startswith("not scored: same") for text in result.warnings)


def test_rows_that_do_not_vary_are_judged_raw_alone() -> None:
    _, columns = planted(0)
    result = deconfound(
        np.ones((600, 3)), columns, labels=["perturbed"], batch="plate", settings=QUICK
    )
    assert set(result.to_frame().condition) == {"raw"}
    assert any(text.startswith("pca+ica was left") for text in result.warnings)


def test_one_batch_only_is_told_and_not_scored() -> None:
    values, columns = planted(0)
    columns["plate"] = np.full(600, "A")
    result = deconfound(values, columns, labels=["perturbed"], batch="plate", settings=QUICK)
    reasons = set(result.to_frame().reason)
    assert sum("one batch only" in str(reason) for reason in reasons) == 2
    assert sum("(A)" in str(reason) for reason in reasons) == 1


def test_a_batch_with_one_class_trains_nothing_alone_and_says_so() -> None:
    values, columns = planted(0)
    columns["perturbed"] = np.where(columns["plate"] == "plate 0", 0, columns["perturbed"])
    settings = BatchSettings(**{**QUICK.__dict__, "protocols": ("train-on-one",)})
    result = deconfound(values, columns, labels=["perturbed"], batch="plate", settings=settings)
    assert any(
        re.search("train-on-one, .*plate 0: .*100 .*label 0", text) for text in result.warnings
    )
    auroc = result.to_frame().query("measure == 'AUROC' and condition == 'raw'")
    assert auroc.n_folds.item() == 5


@pytest.mark.parametrize(
    ("columns", "labels", "control", "message"),
    [
        ({"dose": [0, 1, 2] * 200}, ["dose"], None, r"dose .*0, 1, 2"),
        ({"dose": ["a", "b"] * 300}, ["dose"], "c", "control 'c'"),
        ({}, ["plate"], None, "as batch"),
        ({}, [], None, "no label"),
        ({}, ["gene"], None, "column 'gene'"),
    ],
)
def test_labels_that_ask_no_question_are_refused(columns, labels, control, message: str) -> None:
    values, known = planted(0)
    settings = BatchSettings(**{**QUICK.__dict__, "control": control})
    with pytest.raises(InputError, match=message):
        deconfound(values, {**known, **columns}, labels=labels, batch="plate", settings=settings)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_folds": 1}, "n_folds: got 1"),
        ({"protocols": ("loo",)}, "protocols: got loo"),
        ({"protocols": ()}, "protocols: got none"),
        ({"top_percent": (0,)}, "top_percent: got 0"),
        ({"fit_on": "some"}, "fit_on: got 'some'"),
    ],
)
def test_impossible_settings_are_refused(arguments, message: str) -> None:
    with pytest.raises(InputError, match=message):
        BatchSettings(**arguments)
