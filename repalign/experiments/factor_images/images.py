"""Images and their factors, drawn from a data set too large to be kept whole."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from repalign.aliases import IntArray

# What the trainings take; larger images are reduced to it.
SIDE = 64


@dataclass(frozen=True, eq=False)
class FactorImages:
    """Images ``(n, side, side, 3)`` and the level of every factor by its name."""

    images: NDArray[np.uint8]
    factors: Mapping[str, IntArray]


def draw_rows(n_rows: int, n_drawn: int | None, seed: int) -> IntArray:
    """Return the numbers of rows drawn without repetition, in order; all of them if None."""
    if n_drawn is None or n_drawn >= n_rows:
        return np.arange(n_rows)
    return np.sort(np.random.default_rng(seed).choice(n_rows, n_drawn, replace=False))


def levels_of(values: NDArray[np.generic]) -> IntArray:
    """Return the rank of every value among those that occur."""
    return np.unique(values, return_inverse=True)[1].reshape(len(values)).astype(np.int64)


def as_colour(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return images with three channels."""
    if images.ndim == 4 and images.shape[3] == 3:
        return images
    return np.repeat(images.reshape(*images.shape[:3], 1), 3, axis=3)


def shrunk(image: NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    """Return one image with that side, averaged where it is larger."""
    if image.shape[0] == image.shape[1] == side:
        return image
    from PIL import Image

    return np.asarray(Image.fromarray(image).resize((side, side), Image.Resampling.BOX))
