"""scikit-learn's digits as a model's input: the pixels that extraction makes, split in two."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from repalign.aliases import FloatArray
from repalign.data.open_data import DIGITS, open_builtin
from repalign.data.samples import Source

if TYPE_CHECKING:
    from torch import Generator, Tensor

SIZE = 32
MEAN, STD = 0.5, 0.5
# The last digits come from other writers than the first.
N_HELD_OUT = 360
CLASSES = 10
_MAX_TURN, _MAX_SHIFT, _MAX_ZOOM = np.pi / 12, 0.1, 0.1


@dataclass(frozen=True, eq=False)
class Digits:
    """Images ``(n, 1, 32, 32)`` and their labels, to learn from and to be judged on."""

    images: "Tensor"
    labels: "Tensor"
    held_out_images: "Tensor"
    held_out_labels: "Tensor"


def load_digits() -> Digits:
    """Return the 1797 digits, enlarged from 8×8 to 32×32; the last 360 are held out."""
    import torch
    from sklearn.datasets import load_digits as load_labelled

    source = open_builtin(DIGITS)
    images = torch.from_numpy(np.stack([_pixels(source, row) for row in range(len(source))]))
    labels = torch.from_numpy(load_labelled().target.astype(np.int64))
    return Digits(
        images[:-N_HELD_OUT], labels[:-N_HELD_OUT], images[-N_HELD_OUT:], labels[-N_HELD_OUT:]
    )


def _pixels(source: Source, row: int) -> FloatArray:
    """Return one digit as extraction makes it, up to the last bit.

    That bit is settled here: any other rounding would train other weights from the same seed.
    """
    from PIL.Image import Image, Resampling

    digit = source.read(row).value
    assert isinstance(digit, Image)
    grey = np.asarray(digit.resize((SIZE, SIZE), Resampling.BICUBIC), dtype=np.float32)
    return (grey[None] / 255 - MEAN) / STD


def draw_digits(digits: Digits, count: int, generator: "Generator") -> "tuple[Tensor, Tensor]":
    """Draw training images at random, each turned, moved and zoomed a little."""
    import torch
    from torch.nn.functional import affine_grid, grid_sample

    rows = torch.randint(len(digits.images), (count,), generator=generator)
    turn, across, down, zoom = 2 * torch.rand(4, count, generator=generator) - 1
    angle, scale = turn * _MAX_TURN, 1 + zoom * _MAX_ZOOM
    cosine, sine = scale * torch.cos(angle), scale * torch.sin(angle)
    turned = torch.stack([cosine, -sine, sine, cosine], dim=1).view(count, 2, 2)
    moved = torch.stack([across, down], dim=1)[:, :, None] * _MAX_SHIFT
    images = digits.images[rows]
    grid = affine_grid(torch.cat([turned, moved], dim=2), list(images.shape), align_corners=False)
    # the border of a digit is black, and padding with it is what a moved digit looks like
    drawn = grid_sample(images, grid, padding_mode="border", align_corners=False)
    return drawn, digits.labels[rows]
