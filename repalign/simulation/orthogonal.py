"""Autoencoders of orthogonal layers with leaky ReLUs, whose bi-Lipschitz constant the leak bounds.

Several are trained side by side as stacks of matrices: a step of ten small ones takes hardly
longer than one of a single one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from repalign.aliases import FloatArray, IntArray
from repalign.simulation.fitting import Budget, fit, seeded

if TYPE_CHECKING:
    from torch import Tensor

LARGEST_GRADIENT = 1.0
# Polar retraction by Newton and Schulz; so near to orthogonal, two steps leave about 1e-6.
N_RETRACTIONS = 2


@dataclass(frozen=True)
class OrthogonalAutoencoder:
    """Matrices with orthonormal rows or columns, no biases, a leaky ReLU between two of them.

    Attributes:
        widths: From the data to the latents; the decoder is the mirror image.
        leak: Slope of the leaky ReLU below zero; 1 is a linear network, an isometry.
    """

    widths: tuple[int, ...]
    leak: float

    @property
    def bound(self) -> float:
        """What no bi-Lipschitz constant of the decoder exceeds."""
        return self.leak ** -(len(self.widths) - 2)


@dataclass(frozen=True)
class Patience:
    """When training ends before its budget: no mean loss of an epoch is better any more.

    Attributes:
        n_epochs: How many epochs without improvement.
        improvement: What counts as one.
    """

    n_epochs: int = 50
    improvement: float = 1e-5


@dataclass(frozen=True, eq=False)
class OrthogonalRun:
    """One trained autoencoder on the rows that it is judged on.

    Attributes:
        latents: Rows in the latent space.
        untrained: The same before training.
        jacobians: Of the decoder, ``(rows, data, latents)``.
        reconstruction: Mean squared error over the variance of the rows.
    """

    latents: FloatArray
    untrained: FloatArray
    jacobians: FloatArray
    reconstruction: float


def train_orthogonal(
    rows: FloatArray,
    subsets: Sequence[IntArray],
    judged: Sequence[IntArray],
    model: OrthogonalAutoencoder,
    budget: Budget,
    *,
    seed: int,
    patience: Patience | None = None,
) -> list[OrthogonalRun]:
    """Train an autoencoder on each subset of the rows, from different starts.

    Args:
        rows: Centred data.
        subsets: For every autoencoder, the numbers of the rows that it learns from.
        judged: For every autoencoder, the numbers of the rows that it is judged on.
        model: What they have in common.
        budget: Of each of them.
        seed: Of starts and batches.
        patience: Ends the training of all when none improves any more.
    """
    import torch
    from torch import nn

    rng = np.random.default_rng(seed)
    data = torch.from_numpy(rows).float()
    with seeded(seed):
        both = (*model.widths, *model.widths[-2::-1])
        weights = nn.ParameterList(
            [nn.Parameter(_orthogonal(len(subsets), *sizes)) for sizes in pairwise(both)]
        )
        half = len(weights) // 2
        seen = [data[torch.from_numpy(own)] for own in judged]
        untrained = _latents(weights[:half], seen, model.leak)
        watch = _Watch(len(subsets), patience, min(map(len, subsets)) // budget.batch_size or 1)

        def loss() -> "Tensor":
            drawn = np.stack([own[rng.integers(0, own.size, budget.batch_size)] for own in subsets])
            batch = data[torch.from_numpy(drawn)]
            errors = (_back(batch, weights, model.leak) - batch).square().mean(dim=(1, 2))
            watch.hear(errors.detach().numpy())
            return errors.sum()

        fit(
            weights, loss, budget, lambda _: _retract(weights, _newton_schulz),
            before_step=lambda: _clip(weights), is_done=watch.is_done,
        )  # fmt: skip
        _retract(weights, _polar)
        latents = _latents(weights[:half], seen, model.leak)
        return [
            OrthogonalRun(
                latents[number],
                untrained[number],
                _jacobians(weights[half:], latents[number], number, model.leak),
                _reconstruction(weights, seen[number], number, model.leak),
            )
            for number in range(len(subsets))
        ]


class _Watch:
    """Hears the losses of all autoencoders and tells when none improves any more."""

    def __init__(self, n_models: int, patience: Patience | None, n_steps: int) -> None:
        self._patience, self._n_steps = patience, n_steps
        self._best = np.full(n_models, np.inf)
        self._sum = np.zeros(n_models)
        self._since = 0

    def hear(self, losses: FloatArray) -> None:
        self._sum += losses

    def is_done(self, step: int) -> bool:
        if self._patience is None or step % self._n_steps:
            return False
        mean, self._sum = self._sum / self._n_steps, np.zeros_like(self._sum)
        is_better = mean < self._best - self._patience.improvement
        self._best = np.minimum(self._best, mean)
        self._since = 0 if is_better.any() else self._since + 1
        return self._since >= self._patience.n_epochs


def _orthogonal(n_models: int, narrow: int, wide: int) -> "Tensor":
    import torch

    empty = torch.empty(n_models, narrow, wide)
    for matrix in empty:
        torch.nn.init.orthogonal_(matrix)
    return empty


def _pass(batch: "Tensor", weights: Any, leak: float) -> "Tensor":
    """Send rows of every autoencoder, ``(models, rows, width)``, through layers."""
    from torch.nn.functional import leaky_relu

    for number, weight in enumerate(weights):
        batch = (leaky_relu(batch, leak) if number else batch) @ weight
    return batch


def _back(batch: "Tensor", weights: Any, leak: float) -> "Tensor":
    """Encode and decode; latents themselves go through no ReLU."""
    half = len(weights) // 2
    return _pass(_pass(batch, weights[:half], leak), weights[half:], leak)


def _own(weights: Any, number: int) -> list["Tensor"]:
    return [weight[number : number + 1] for weight in weights]


def _latents(encoder: Any, seen: Sequence["Tensor"], leak: float) -> list[FloatArray]:
    import torch

    with torch.no_grad():
        return [
            _pass(own[None], _own(encoder, number), leak)[0].double().numpy()
            for number, own in enumerate(seen)
        ]


def _reconstruction(weights: Any, own: "Tensor", number: int, leak: float) -> float:
    import torch

    with torch.no_grad():
        back = _back(own[None], _own(weights, number), leak)[0]
        return float((back - own).square().sum() / (own - own.mean(dim=0)).square().sum())


def _jacobians(decoder: Any, latents: FloatArray, number: int, leak: float) -> FloatArray:
    """Return the derivatives of the decoder: products of matrices and slopes."""
    first, *rest = (weight[number].detach().double().numpy() for weight in decoder)
    values = latents @ first
    derivatives = np.broadcast_to(first, (len(latents), *first.shape))
    for matrix in rest:
        slopes = np.where(values > 0, 1.0, leak)
        values = (values * slopes) @ matrix
        derivatives = (derivatives * slopes[:, None]) @ matrix
    return derivatives.swapaxes(1, 2)


def _clip(weights: Any) -> None:
    """Shorten the gradient of every autoencoder for itself."""
    import torch

    squares = sum(weight.grad.square().sum(dim=(1, 2)) for weight in weights)
    factors = (LARGEST_GRADIENT / torch.sqrt(squares)).clamp(max=1.0)
    for weight in weights:
        weight.grad *= factors[:, None, None]


def _retract(weights: Any, nearest: Callable[["Tensor"], "Tensor"]) -> None:
    """Put every matrix back onto those with orthonormal rows or columns."""
    import torch

    with torch.no_grad():
        for weight in weights:
            is_wide = weight.shape[1] < weight.shape[2]
            tall = weight.transpose(1, 2) if is_wide else weight
            found = nearest(tall)
            weight.copy_(found.transpose(1, 2) if is_wide else found)


def _newton_schulz(tall: "Tensor") -> "Tensor":
    for _ in range(N_RETRACTIONS):
        tall = 1.5 * tall - 0.5 * tall @ (tall.transpose(1, 2) @ tall)
    return tall


def _polar(tall: "Tensor") -> "Tensor":
    import torch

    left, _, right = torch.linalg.svd(tall, full_matrices=False)
    return torch.as_tensor(left @ right)
