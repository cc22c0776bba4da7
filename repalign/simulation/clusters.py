"""Classification of clusters on a sphere by cross-entropy (Reizinger et al. 2025)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from repalign.aliases import FloatArray, IntArray
from repalign.simulation.contrastive import N_JUDGED, Recovery
from repalign.simulation.fitting import Budget, fit, perceptron, seeded
from repalign.simulation.latents import on_sphere, von_mises_fisher
from repalign.simulation.mixing import draw_mixing

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Clusters:
    """Classes of equal weight round random directions of the unit sphere.

    With as many classes as samples, and fresh rows as their views, it is instance discrimination.

    Attributes:
        dim: Dimension of the space around.
        n_classes: How many.
        concentration: κ of the von Mises-Fisher distribution round the vector of each class.
    """

    dim: int
    n_classes: int
    concentration: float


@dataclass(frozen=True)
class ClusterEncoder:
    """How clusters are seen and encoded.

    Attributes:
        n_layers: Layers of the mixing between latents and observations.
        widths: Of the hidden layers of the encoder, in units of the dimension.
    """

    n_layers: int
    widths: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Classified:
    """What a classifier's features say of latents, on fresh rows.

    Attributes:
        drawn: For latents drawn as in training, from the clusters.
        uniform: For latents drawn uniformly from the sphere, which is stricter.
        excess_loss: Cross-entropy above that of the true posterior, in nats.
    """

    drawn: Recovery
    uniform: Recovery
    excess_loss: float


@dataclass(frozen=True, eq=False)
class _Draws:
    """The classes of one data generating process."""

    clusters: Clusters
    directions: FloatArray

    def labelled(self, n_rows: int, rng: np.random.Generator) -> tuple[FloatArray, IntArray]:
        labels = rng.integers(0, self.clusters.n_classes, n_rows)
        around = self.directions[labels]
        return von_mises_fisher(around, self.clusters.concentration, rng), labels

    def uniform(self, n_rows: int, rng: np.random.Generator) -> FloatArray:
        return on_sphere(rng.standard_normal((n_rows, self.clusters.dim)))

    def posterior_loss(self, latents: FloatArray, labels: IntArray) -> float:
        """Cross-entropy of the true posterior, whose logits are κ z·c."""
        logits = self.clusters.concentration * latents @ self.directions.T
        return _cross_entropy(logits, labels)


def _cross_entropy(logits: FloatArray, labels: IntArray) -> float:
    from scipy.special import logsumexp

    chosen = logits[np.arange(labels.size), labels]
    return float(np.mean(logsumexp(logits, axis=1) - chosen))


def train_classifier(
    clusters: Clusters, encoding: ClusterEncoder, budget: Budget, *, seed: int, device: str = "cpu"
) -> Classified:
    """Draw classes and a mixing, train an encoder with a linear head, judge its features.

    The encoder has batch norms, the head no bias; features are not normalised.
    """
    import torch
    from torch import nn
    from torch.nn.functional import cross_entropy

    dim, rng = clusters.dim, np.random.default_rng([seed, 0])
    vectors = on_sphere(rng.standard_normal((clusters.n_classes, dim)))
    draws = _Draws(clusters, vectors)
    mixing = draw_mixing(draws.uniform(N_JUDGED, rng), encoding.n_layers, rng)
    judged, labels = draws.labelled(N_JUDGED, rng)
    uniform = draws.uniform(N_JUDGED, rng)
    data = np.random.default_rng([seed, 1])

    def observed(rows: FloatArray) -> "Tensor":
        return torch.from_numpy(mixing.observe(rows)).to(device)

    with seeded(seed):
        encoder = perceptron([dim, *(dim * width for width in encoding.widths), dim], norm=True)
        head = nn.Linear(dim, clusters.n_classes, bias=False)
        module = nn.Sequential(encoder, head).to(device)

        def features(rows: FloatArray) -> FloatArray:
            encoder.eval()
            with torch.no_grad():
                return encoder(observed(rows)).double().cpu().numpy()

        def loss() -> "Tensor":
            rows, targets = draws.labelled(budget.batch_size, data)
            return cross_entropy(module(observed(rows)), torch.from_numpy(targets).to(device))

        before = features(judged), features(uniform)
        fit(module, loss, budget)
        weights = head.weight.detach().double().cpu().numpy()
        after = features(judged), features(uniform)
    loss_of_head = _cross_entropy(after[0] @ weights.T, labels)
    return Classified(
        Recovery(judged, mixing.observe(judged), before[0], after[0]),
        Recovery(uniform, mixing.observe(uniform), before[1], after[1]),
        loss_of_head - draws.posterior_loss(judged, labels),
    )
