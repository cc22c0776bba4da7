"""The training loop of the simulations: Adam, one cycle of the learning rate, fresh data a step."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from repalign.core.device import threads_held

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer
    from torch.optim.lr_scheduler import LRScheduler

OnStep = Callable[[int], None]


@dataclass(frozen=True)
class Budget:
    """How long and how fast is trained.

    Attributes:
        n_steps: Optimiser steps.
        batch_size: Rows a step.
        learning_rate: Largest of the cycle: up over the first tenth, then down to zero as a
            cosine; constant if ``is_constant``.
        is_constant: Keep the learning rate.
    """

    n_steps: int
    batch_size: int
    learning_rate: float
    is_constant: bool = False


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch inside the block, one thread; leave its generator alone outside."""
    import torch

    with threads_held(1), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def perceptron(widths: Sequence[int], *, leak: float = 0.01, norm: bool = False) -> "nn.Module":
    """Return linear layers with leaky ReLUs between them, and batch norms if asked for."""
    from torch import nn

    layers: list[nn.Module] = []
    for number, (narrow, wide) in enumerate(pairwise(widths)):
        if number:
            layers += [nn.BatchNorm1d(narrow)] if norm else []
            layers.append(nn.LeakyReLU(leak))
        layers.append(nn.Linear(narrow, wide))
    return nn.Sequential(*layers)


def one_cycle(optimizer: "Optimizer", n_steps: int) -> "LRScheduler":
    """Return a schedule: up to the optimiser's rate over a tenth, then down to zero as a cosine."""
    from torch.optim.lr_scheduler import OneCycleLR

    largest = [group["lr"] for group in optimizer.param_groups]
    return OneCycleLR(optimizer, largest, total_steps=n_steps, pct_start=0.1)


def fit(
    module: "nn.Module",
    loss_of_step: "Callable[[], Tensor]",
    budget: Budget,
    on_step: OnStep | None = None,
    *,
    before_step: Callable[[], None] | None = None,
    is_done: Callable[[int], bool] | None = None,
) -> None:
    """Train a module in place, and leave it ready to be evaluated.

    Args:
        module: What is trained.
        loss_of_step: Draws a batch and returns its loss.
        budget: How long and how fast.
        on_step: Called with the number of steps done, with the module in training.
        before_step: Called when the gradients are there, before they are used.
        is_done: Asked after each step, with the number of them, whether that was the last.
    """
    import torch

    parameters = list(module.parameters())
    optimizer = torch.optim.Adam(parameters, lr=budget.learning_rate)
    schedule = None if budget.is_constant else one_cycle(optimizer, budget.n_steps)
    module.train()
    for step in range(1, budget.n_steps + 1):
        loss: Any = loss_of_step()
        optimizer.zero_grad()
        loss.backward()
        if before_step is not None:
            before_step()
        optimizer.step()
        if schedule is not None:
            schedule.step()
        if on_step is not None:
            on_step(step)
        if is_done is not None and is_done(step):
            break
    module.eval()
