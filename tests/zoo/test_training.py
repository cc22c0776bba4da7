import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from repalign.core.device import threads_held
from repalign.exceptions import InputError
from repalign.zoo.recipe import RECIPES
from repalign.zoo.task import Task
from repalign.zoo.train import make_task, read_training, train_model
from repalign.zoo.training import train_task

SHORT = replace(
    RECIPES["resnet"], steps=6, batch_size=8, warmup_steps=2, checkpoint_steps=2, width=8
)


class Stopped(Exception):
    pass


def stop_after(step: int):
    def on_progress(done: int, total: int) -> None:
        if done == step:
            raise Stopped

    return on_progress


def train(checkpoint: Path, seed: int = 0, on_progress=None) -> Task:
    with threads_held(1), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        task = make_task(SHORT)
        train_task(task, SHORT, seed, checkpoint, on_progress)
    return task


def test_an_interrupted_training_ends_in_the_same_weights(tmp_path: Path) -> None:
    whole = train(tmp_path / "whole").module.state_dict()
    with pytest.raises(Stopped):
        train(tmp_path / "stopped", on_progress=stop_after(5))
    seen: list[int] = []
    resumed = train(tmp_path / "stopped", on_progress=lambda done, total: seen.append(done))
    assert seen == [5, 6]  # from the checkpoint after step 4
    for name, tensor in resumed.module.state_dict().items():
        assert torch.equal(tensor, whole[name]), name


def test_another_seed_gives_other_weights_and_refuses_the_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(Stopped):
        train(tmp_path / "zero", on_progress=stop_after(3))
    with pytest.raises(InputError, match="seed"):
        train(tmp_path / "zero", seed=1)


def test_a_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    (tmp_path / "damaged").write_bytes(b"nothing that torch wrote")
    with pytest.raises(InputError, match="damaged"):
        train(tmp_path / "damaged")


def test_training_learns(tmp_path: Path) -> None:
    recipe = replace(SHORT, steps=60, batch_size=64, checkpoint_steps=100)
    with threads_held(1), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        task = make_task(recipe)
        before = task.figures()["held_out_accuracy"]
        train_task(task, recipe, 0, tmp_path / "checkpoint")
        after = task.figures()["held_out_accuracy"]
    assert before < 0.3
    assert after > 0.5


def test_threads_and_random_numbers_outside_are_left_alone(tmp_path: Path) -> None:
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    train_model("mae-untrained", 3, tmp_path / "model")
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), state)


def test_a_finished_model_is_not_trained_again_and_never_replaced(tmp_path: Path) -> None:
    first = train_model("mae-untrained", 0, tmp_path / "model")
    assert train_model("mae-untrained", 0, tmp_path / "model") == first
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]
    with pytest.raises(InputError, match=r"mae-untrained.* resnet"):
        train_model("resnet", 0, tmp_path / "model")


def test_a_directory_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(InputError, match=r"training\.json"):
        train_model("resnet", 0, tmp_path)


def test_a_negative_seed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"seed.* -1"):
        train_model("resnet", -1, tmp_path / "model")


def test_a_damaged_record_is_refused(tmp_path: Path) -> None:
    (tmp_path / "training.json").write_text('{"seed": 1}')
    with pytest.raises(InputError, match="repalign zoo train"):
        read_training(tmp_path)


def test_pipes_are_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "checkpoint")
    with pytest.raises(InputError, match="a pipe"):
        train(tmp_path / "checkpoint")
    os.mkfifo(tmp_path / "training.json")
    with pytest.raises(InputError, match="repalign zoo train"):
        read_training(tmp_path)
