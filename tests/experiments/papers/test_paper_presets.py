"""The paper's sizes begin here: the first steps of the first case, networks and all as it has them.

Data of the paper's format stand in for those that are not there, and batches are small.
"""

from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from repalign.engine.machine import Machine
from repalign.exceptions import RepalignError
from repalign.experiments.imagenet_x import find_imagenet_x
from repalign.experiments.papers.disentangle import FactorCase
from repalign.experiments.papers.gaussian_null import NullCase
from repalign.experiments.reproduce.experiment import Work
from repalign.experiments.reproduce.registry import experiments, find_experiment
from repalign.experiments.sprite_autoencoder import AutoencoderSettings
from repalign.simulation.fitting import Budget
from tests.experiments.test_digit_images import write_idx
from tests.experiments.test_imagenet_x import photographs

RNG = np.random.default_rng(0)
# Theirs are models of a hub, which is not there.
FACTORS = "proxy-factors"
OF_THE_HUB = ("table1", "layers", FACTORS)
BEGUN = (
    "warmup", "disentangle", "contrastive", "cross-entropy", "radial-classes", "data-size", "width"
)  # fmt: skip


def first_steps(value: Any) -> Any:
    """Return the same with two steps of few rows."""
    if isinstance(value, Budget):
        return replace(value, n_steps=2, batch_size=32)
    if isinstance(value, AutoencoderSettings):
        return replace(value, n_steps=2, batch_size=2)
    if isinstance(value, FactorCase):
        return replace(value, settings=first_steps(value.settings), at=(2,), n_judged=100)
    if not is_dataclass(value):
        return value
    found = {each.name: first_steps(getattr(value, each.name)) for each in fields(value)}
    if "at" in found:
        found["at"] = (0, 2)
    return type(value)(**found)


def images_like_mnist(folder: Path) -> Path:
    levels = RNG.integers(0, 256, (300, 28, 28)).astype(np.uint8)
    write_idx(folder / "train-images-idx3-ubyte.gz", levels)
    write_idx(folder / "train-labels-idx1-ubyte.gz", (np.arange(300) % 10).astype(np.uint8))
    return folder


def images_like_dsprites(folder: Path) -> Path:
    np.savez(
        folder / "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz",
        imgs=RNG.integers(0, 2, (100, 64, 64)).astype(np.uint8),
        latents_classes=RNG.integers(0, 3, (100, 6)),
    )
    return folder


DATA = {
    "warmup": images_like_mnist,
    "data-size": images_like_mnist,
    "width": images_like_mnist,
    "disentangle": images_like_dsprites,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BEGUN)
def test_the_sizes_of_the_paper_begin(name: str, tmp_path: Path) -> None:
    experiment = find_experiment(name)
    data = experiment.data(DATA[name](tmp_path)) if name in DATA else None
    case = first_steps(experiment.presets["paper"].cases[0])
    found = experiment.measure(case, 0, Work(tmp_path, Machine(), data))
    assert any(np.isfinite(each.value) for each in found)


@pytest.mark.slow
def test_the_columns_of_the_gaussian_null_of_the_paper_are_compared(tmp_path: Path) -> None:
    experiment = find_experiment("gaussian-null")
    case = experiment.presets["paper"].cases[0]
    assert isinstance(case, NullCase)
    found = experiment.measure(replace(case, n_rows=1000), 0, Work(tmp_path, Machine()))
    assert any(np.isfinite(each.value) for each in found)


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_THE_HUB)
def test_models_of_the_hub_are_asked_for_in_one_line(
    name: str, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (tmp_path / "text.txt").write_text("A paragraph.\n\nAnother.\n", encoding="utf-8")
    experiment = find_experiment(name)
    preset = experiment.presets["paper"]
    data = find_imagenet_x(photographs(tmp_path / "photographs")) if name == FACTORS else None
    work = Work(tmp_path, Machine(), data)
    begin = {
        # they extract before they measure
        "table1": lambda: experiment.prepare(preset, work),
        FACTORS: lambda: experiment.prepare(preset, work),
        "layers": lambda: experiment.measure(preset.cases[0], 0, work),
    }[name]
    with pytest.raises(RepalignError) as told:
        begin()
    assert "\n" not in str(told.value)


def test_every_paper_preset_is_begun_here_or_runs_no_training() -> None:
    named = {each.name for each in experiments() if "paper" in each.presets}
    # deconfound has the cases of the small preset on the user's files, calibration more trials
    assert named - {"deconfound", "calibration"} == {*BEGUN, *OF_THE_HUB, "gaussian-null"}
