"""The training loop: AdamW, warm-up and cosine decay, resumable to the bit."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repalign.damage_errors import PICKLE_ERRORS
from repalign.exceptions import InputError
from repalign.files import open_regular, writing
from repalign.zoo.recipe import Recipe
from repalign.zoo.task import Task, data_generator

if TYPE_CHECKING:
    from torch.optim import Optimizer

OnProgress = Callable[[int, int], None]
_MAX_GRADIENT_NORM = 1.0


def train_task(
    task: Task,
    recipe: Recipe,
    seed: int,
    checkpoint: Path,
    on_progress: OnProgress | None = None,
) -> None:
    """Train a task's module in place, from the checkpoint if there is one.

    Every step draws its batch from the seed and its own number, so that an interrupted training
    ends in the same weights as one that was not.

    Raises InputError when the checkpoint belongs to another recipe or seed.
    """
    import torch

    optimizer = _optimizer(task, recipe)
    first = _restore(task, optimizer, recipe, seed, checkpoint)
    task.module.train()
    for step in range(first, recipe.steps):
        for group in optimizer.param_groups:
            group["lr"] = recipe.learning_rate * _decay(step, recipe)
        optimizer.zero_grad()
        loss: Any = task.loss(data_generator(seed, step))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(task.module.parameters(), _MAX_GRADIENT_NORM)
        optimizer.step()
        done = step + 1
        if done % recipe.checkpoint_steps == 0 and done < recipe.steps:
            _save(task, optimizer, recipe, seed, done, checkpoint)
        if on_progress is not None:
            on_progress(done, recipe.steps)
    task.module.eval()


def _optimizer(task: Task, recipe: Recipe) -> "Optimizer":
    import torch

    trained = [p for p in task.module.parameters() if p.requires_grad]
    # norms, biases and single tokens are not decayed
    groups = [
        {"params": [p for p in trained if p.ndim > 1], "weight_decay": recipe.weight_decay},
        {"params": [p for p in trained if p.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=recipe.learning_rate, betas=(0.9, 0.95))


def _decay(step: int, recipe: Recipe) -> float:
    if step < recipe.warmup_steps:
        return (step + 1) / recipe.warmup_steps
    share = (step - recipe.warmup_steps) / max(1, recipe.steps - recipe.warmup_steps)
    return 0.5 * (1 + math.cos(math.pi * share))


def _identity(recipe: Recipe, seed: int) -> str:
    return f"{recipe!r} seed {seed}"


def _save(
    task: Task, optimizer: "Optimizer", recipe: Recipe, seed: int, step: int, path: Path
) -> None:
    import torch

    state = {
        "identity": _identity(recipe, seed),
        "step": step,
        "module": task.module.state_dict(),
        "optimizer": optimizer.state_dict(),
    }
    with writing(path) as whole:
        torch.save(state, whole)


def _restore(task: Task, optimizer: "Optimizer", recipe: Recipe, seed: int, path: Path) -> int:
    import torch

    if not path.exists():
        return 0
    try:
        with open_regular(path) as file:
            state: Any = torch.load(file, weights_only=True)
    except PICKLE_ERRORS as error:
        raise InputError(f"{path} holds no training; remove it, and it begins anew") from error
    if not isinstance(state, dict) or "identity" not in state:
        raise InputError(f"{path} holds no training; remove it, and it begins anew")
    if state["identity"] != _identity(recipe, seed):
        raise InputError(
            f"{path} belongs to another recipe or seed; remove it or choose another --output"
        )
    task.module.load_state_dict(state["module"])
    optimizer.load_state_dict(state["optimizer"])
    return int(state["step"])
