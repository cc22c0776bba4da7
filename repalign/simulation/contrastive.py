"""InfoNCE on observed pairs of neighbours (Zimmermann et al. 2021)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from repalign.aliases import FloatArray
from repalign.simulation.fitting import Budget, fit, perceptron, seeded
from repalign.simulation.latents import Latents
from repalign.simulation.mixing import draw_mixing

if TYPE_CHECKING:
    from torch import Tensor, nn

Similarity = Literal["cosine", "l1", "l2"]
_POWER = {"l1": 1, "l2": 2}
N_JUDGED = 4096


@dataclass(frozen=True)
class ContrastiveModel:
    """What the encoder assumes.

    Attributes:
        similarity: ``cosine`` of outputs on the sphere, or minus the p-th power of the p-norm
            between unbounded outputs.
        temperature: It is divided by.
        widths: Of the hidden layers, in units of the dimension.
    """

    similarity: Similarity
    temperature: float
    widths: tuple[int, ...] = (10, 50, 50, 10)


@dataclass(frozen=True, eq=False)
class Recovery:
    """Latents, and what is said of them: rows fresh to the encoder.

    Attributes:
        latents: The truth.
        observed: The raw mixture.
        untrained: The encoder's output before training.
        trained: Its output after training.
    """

    latents: FloatArray
    observed: FloatArray
    untrained: FloatArray
    trained: FloatArray


def train_contrastive(
    latents: Latents,
    model: ContrastiveModel,
    budget: Budget,
    *,
    n_layers: int,
    seed: int,
    device: str = "cpu",
) -> Recovery:
    """Draw a mixing, train an encoder on fresh pairs every step, and encode fresh rows."""
    import torch

    rng = np.random.default_rng([seed, 0])
    mixing = draw_mixing(latents.draw(N_JUDGED, rng), n_layers, rng)
    judged = latents.draw(N_JUDGED, rng)
    data, dim = np.random.default_rng([seed, 1]), latents.dim

    def observed(rows: FloatArray) -> "Tensor":
        return torch.from_numpy(mixing.observe(rows)).to(device)

    def encoded() -> FloatArray:
        encoder.eval()
        with torch.no_grad():
            return outputs(encoder, observed(judged), model).double().cpu().numpy()

    with seeded(seed):
        widths = [dim, *(dim * width for width in model.widths), dim]
        encoder = perceptron(widths).to(device)
        untrained = encoded()

        def loss() -> "Tensor":
            points = latents.draw(budget.batch_size, data)
            pairs = np.concatenate([points, latents.neighbours(points, data)])
            return info_nce(outputs(encoder, observed(pairs), model), model)

        fit(encoder, loss, budget)
        trained = encoded()
    return Recovery(judged, mixing.observe(judged), untrained, trained)


def outputs(encoder: "nn.Module", observed: "Tensor", model: ContrastiveModel) -> "Tensor":
    """Return what an encoder says of observations, on the sphere where the model has it so."""
    from torch.nn.functional import normalize

    found: Tensor = encoder(observed)
    return normalize(found, dim=1) if model.similarity == "cosine" else found


def info_nce(rows: "Tensor", model: ContrastiveModel) -> "Tensor":
    """Return the loss of the outputs for points and, below them, for their neighbours.

    A point's neighbour competes with the other points of the batch, which are uniform as the
    theory wants its negatives.
    """
    import torch

    points, neighbours = rows.chunk(2)
    logits = _pairwise(points, model) / model.temperature
    positive = _rowwise(points, neighbours, model) / model.temperature
    logits = torch.diagonal_scatter(logits, positive)
    return (torch.logsumexp(logits, dim=1) - positive).mean()


def _pairwise(points: "Tensor", model: ContrastiveModel) -> "Tensor":
    import torch

    if model.similarity == "cosine":
        return points @ points.T
    power = _POWER[model.similarity]
    return -(torch.cdist(points, points, power) ** power)


def _rowwise(points: "Tensor", others: "Tensor", model: ContrastiveModel) -> "Tensor":
    if model.similarity == "cosine":
        return (points * others).sum(dim=1)
    return -((points - others).abs() ** _POWER[model.similarity]).sum(dim=1)
