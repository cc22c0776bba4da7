"""Shapes3D: one HDF5 file of images and labels."""

from pathlib import Path

import numpy as np

from repalign.exceptions import InputError
from repalign.experiments.factor_images.images import (
    FactorImages,
    as_colour,
    draw_rows,
    levels_of,
)
from repalign.store.formats.hdf5_files import Hdf5Images

FACTORS = ("floor hue", "wall hue", "object hue", "scale", "shape", "orientation")


def read_shapes3d(path: Path, n_images: int | None, seed: int) -> FactorImages:
    """Draw images of ``3dshapes.h5``.

    Raises:
        InputError: The file is another.
    """
    images, labels = Hdf5Images(path, "images"), Hdf5Images(path, "labels")
    n_rows = images.shape[0]
    if labels.shape != (n_rows, len(FACTORS)) or images.dtype != np.uint8:
        raise InputError(
            f"{path.name}: {images.dtype} images of shape {images.shape} with labels of shape "
            f"{labels.shape}; expected uint8 and {len(FACTORS)} labels an image"
        )
    rows = draw_rows(n_rows, n_images, seed)
    drawn = np.stack([images[row] for row in rows.tolist()])
    values = labels[:]
    factors = {name: levels_of(values[:, n])[rows] for n, name in enumerate(FACTORS)}
    return FactorImages(as_colour(drawn), factors)
