"""Classes by angle of points in a plane (Roeder et al. 2021, section 5.1)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from repalign.aliases import FloatArray, IntArray
from repalign.simulation.fitting import Budget, fit, perceptron, seeded

if TYPE_CHECKING:
    from torch import Tensor

SPREAD = 3.0


@dataclass(frozen=True)
class RadialClasses:
    """Sectors of equal angle, points from a Gaussian with standard deviation 3.

    Attributes:
        n_classes: How many sectors.
        label_noise: Standard deviation of a Gaussian that moves a point before its label is read;
            0 gives every point the sector that it lies in.
        hidden: Widths of the hidden layers.
        dim: Width of the features.
    """

    n_classes: int = 18
    label_noise: float = 0.0
    hidden: tuple[int, ...] = (64, 64, 64)
    dim: int = 2

    def draw(self, n_rows: int, rng: np.random.Generator) -> tuple[FloatArray, IntArray]:
        """Return points and their labels."""
        points = SPREAD * rng.standard_normal((n_rows, 2))
        moved = points + self.label_noise * rng.standard_normal(points.shape)
        return points, self.sectors(moved)

    def sectors(self, points: FloatArray) -> IntArray:
        """Return the number of the sector of every point."""
        turn = np.arctan2(points[:, 1], points[:, 0]) / (2 * np.pi) % 1.0
        return np.minimum((turn * self.n_classes).astype(np.int64), self.n_classes - 1)


@dataclass(frozen=True, eq=False)
class RadialRun:
    """One training.

    Attributes:
        features: Of the judged points, by the number of steps done.
        accuracy: Share of the judged points whose sector is told right at the end.
    """

    features: Mapping[int, FloatArray]
    accuracy: float


def train_radial(
    classes: RadialClasses,
    budget: Budget,
    judged: FloatArray,
    *,
    seed: int,
    at: Sequence[int],
) -> RadialRun:
    """Train one network and keep what it says of the judged points after some numbers of steps."""
    import torch
    from torch import nn
    from torch.nn.functional import cross_entropy

    rng = np.random.default_rng([seed, 1])
    seen = torch.from_numpy(judged).float()
    with seeded(seed):
        encoder = perceptron([2, *classes.hidden, classes.dim], leak=0.0)
        head = nn.Linear(classes.dim, classes.n_classes)
        module = nn.Sequential(encoder, head)
        kept: dict[int, FloatArray] = {}

        def keep(step: int) -> None:
            if step in at:
                with torch.no_grad():
                    kept[step] = encoder(seen).double().numpy()

        def loss() -> "Tensor":
            points, labels = classes.draw(budget.batch_size, rng)
            return cross_entropy(module(torch.from_numpy(points).float()), torch.from_numpy(labels))

        keep(0)
        fit(module, loss, budget, keep)
        with torch.no_grad():
            told = module(seen).argmax(dim=1).numpy()
    return RadialRun(kept, float(np.mean(told == classes.sectors(judged))))
