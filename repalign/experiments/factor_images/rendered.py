"""Falcor3D and Isaac3D: a folder of numbered images next to an array of labels."""

from pathlib import Path

import numpy as np

from repalign.exceptions import InputError
from repalign.experiments.factor_images.images import (
    SIDE,
    FactorImages,
    as_colour,
    draw_rows,
    levels_of,
    shrunk,
)

FALCOR3D = (
    "lighting intensity", "lighting x", "lighting y", "lighting z", "camera x", "camera y",
    "camera z",
)  # fmt: skip
ISAAC3D = (
    "object shape", "robot x", "robot y", "camera height", "object scale", "lighting intensity",
    "lighting y", "object colour", "wall colour",
)  # fmt: skip
NAMES = {len(FALCOR3D): "Falcor3D", len(ISAAC3D): "Isaac3D"}
LABELS = ("train-rec.labels", "labels.npy")
IMAGES = "images"


def labels_file(folder: Path) -> Path | None:
    """Return the file of labels next to the folder of images, None if there is none."""
    if not (folder / IMAGES).is_dir():
        return None
    return next((folder / name for name in LABELS if (folder / name).is_file()), None)


def n_factors(path: Path) -> int:
    """Return how many factors a file of labels has.

    Raises:
        InputError: It is none, or has another number than both data sets.
    """
    return int(_labels(path).shape[1])


def read_rendered(path: Path, n_images: int | None, seed: int, side: int = SIDE) -> FactorImages:
    """Draw images of the folder next to a file of labels, reduced to ``side``.

    Raises:
        InputError: The file is another, or an image is missing or cannot be read.
    """
    from PIL import Image, UnidentifiedImageError

    values = _labels(path)
    titles = FALCOR3D if values.shape[1] == len(FALCOR3D) else ISAAC3D
    rows = draw_rows(len(values), n_images, seed)
    drawn = np.empty((rows.size, side, side, 3), dtype=np.uint8)
    for number, row in enumerate(rows.tolist()):
        place = path.parent / IMAGES / f"{row:06}.png"
        try:
            with Image.open(place) as image:
                drawn[number] = shrunk(np.asarray(image.convert("RGB")), side)
        except (OSError, UnidentifiedImageError) as error:
            raise InputError(f"{place} is not a readable image: {error}") from error
    factors = {name: levels_of(values[:, n])[rows] for n, name in enumerate(titles)}
    return FactorImages(as_colour(drawn), factors)


def _labels(path: Path) -> np.ndarray:
    try:
        values = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"{path} is not a readable array of labels: {error}") from error
    if values.ndim != 2 or values.shape[1] not in NAMES:
        expected = " or ".join(f"(n, {number}) for {name}" for number, name in NAMES.items())
        raise InputError(f"{path} holds labels of shape {values.shape}; expected {expected}")
    return np.asarray(values)
