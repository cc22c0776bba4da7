"""Contrastive coding of image patches: which bottom patch belongs to a top one (Roeder 2021)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from repalign.aliases import FloatArray
from repalign.exceptions import InputError
from repalign.simulation.fitting import Budget, fit, perceptron, seeded

if TYPE_CHECKING:
    from torch import Tensor, nn

Pixels = NDArray[np.uint8]
SIDES = ("top", "bottom")
# Two patches of this share of the height fit above each other, with room to move.
_SHARE = 3 / 7


@dataclass(frozen=True)
class PatchCoder:
    """Two networks of one shape, for the top patch and for the bottom one.

    Attributes:
        hidden: Units of each of the two hidden layers.
        dim: Width of the codes.
    """

    hidden: int
    dim: int


@dataclass(frozen=True, eq=False)
class PatchPairs:
    """Square patches, a random one of the top half of an image and one of its bottom half."""

    top: FloatArray
    bottom: FloatArray

    @classmethod
    def draw(
        cls, images: Pixels, numbers: NDArray[np.int64], rng: np.random.Generator
    ) -> "PatchPairs":
        """Cut one pair out of each of the images of these numbers, levels from −1 to 1.

        Images are grey ``(n, height, width)`` or in colour ``(n, height, width, 3)``.
        """
        height, width = images.shape[1:3]
        side = patch_side(height, width)
        room, half = (height // 2 - side + 1, width - side + 1), height - height // 2
        drawn = [
            (rng.integers(room[0], size=numbers.size), rng.integers(room[1], size=numbers.size))
            for _ in SIDES
        ]
        cut = [
            _cut(images, numbers, below + start, left, side)
            for (below, left), start in zip(drawn, (0, half), strict=True)
        ]
        return cls(*cut)


def patch_side(height: int, width: int) -> int:
    """Return the side of the patches of images of this size.

    Raises:
        InputError: The images are too small to have two patches.
    """
    side = int(np.ceil(_SHARE * height))
    if side > min(height // 2, width):
        raise InputError(f"patches: got images of {height} × {width}, expected 8 × 8 or larger")
    return side


def _cut(
    images: Pixels,
    numbers: NDArray[np.int64],
    top: NDArray[np.int64],
    left: NDArray[np.int64],
    side: int,
) -> FloatArray:
    rows = top[:, None, None] + np.arange(side)[:, None]
    columns = left[:, None, None] + np.arange(side)
    patches = images[numbers[:, None, None], rows, columns]
    flat: FloatArray = patches.reshape(numbers.size, -1) / 127.5 - 1
    return flat


@dataclass(frozen=True, eq=False)
class PatchRun:
    """One training: the codes of the judged patches by side, by the number of steps done.

    Attributes:
        codes: Both sides, by step.
        loss: Of the judged patches at the end, among as many others as in a batch of training.
    """

    codes: Mapping[int, tuple[FloatArray, FloatArray]]
    loss: float


def train_patches(
    images: Pixels,
    judged: PatchPairs,
    coder: PatchCoder,
    budget: Budget,
    *,
    seed: int,
    at: Sequence[int],
) -> PatchRun:
    """Train both networks on fresh patches of these images, and code the judged ones."""
    import torch

    rng = np.random.default_rng([seed, 1])
    seen = [torch.from_numpy(patches).float() for patches in (judged.top, judged.bottom)]
    widths = [judged.top.shape[1], coder.hidden, coder.hidden, coder.dim]
    with seeded(seed):
        sides = torch.nn.ModuleList([perceptron(widths, leak=0.0) for _ in SIDES])
        kept: dict[int, tuple[FloatArray, FloatArray]] = {}

        def keep(step: int) -> None:
            if step in at:
                with torch.no_grad():
                    top, bottom = (
                        side(rows).double() for side, rows in zip(sides, seen, strict=True)
                    )
                kept[step] = top.numpy(), bottom.numpy()

        def loss() -> "Tensor":
            numbers = rng.integers(len(images), size=budget.batch_size)
            pairs = PatchPairs.draw(images, numbers, rng)
            return code_loss(
                sides, *(torch.from_numpy(p).float() for p in (pairs.top, pairs.bottom))
            )

        keep(0)
        fit(sides, loss, budget, keep)
        with torch.no_grad():
            parts = zip(*(torch.split(rows, budget.batch_size) for rows in seen), strict=True)
            losses = [
                float(code_loss(sides, *part))
                for part in parts
                if len(part[0]) == budget.batch_size
            ]
    return PatchRun(kept, float(np.mean(losses)))


def code_loss(sides: "nn.ModuleList", top: "Tensor", bottom: "Tensor") -> "Tensor":
    """Return how badly a top patch tells its bottom patch among those of the batch, in nats."""
    import torch
    from torch.nn.functional import cross_entropy

    logits = sides[0](top) @ sides[1](bottom).T
    return cross_entropy(logits, torch.arange(len(top)))
