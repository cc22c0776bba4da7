"""dSprites and MPI3D: one array of all images in an npz file, in the order of their factors."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repalign.aliases import IntArray
from repalign.damage_errors import ZIP_ERRORS
from repalign.exceptions import InputError, reading
from repalign.experiments.factor_images.images import FactorImages, as_colour, draw_rows
from repalign.npy import NpzArchive, read_header

DSPRITES = ("colour", "shape", "scale", "orientation", "x", "y")
MPI3D = (
    "object colour", "object shape", "object size", "camera height", "background colour",
    "horizontal axis", "vertical axis",
)  # fmt: skip
# Levels of the factors by the number of images: toy, realistic and real have the first.
MPI3D_LEVELS = {
    1_036_800: (6, 6, 2, 3, 3, 40, 40),
    460_800: (4, 4, 2, 3, 3, 40, 40),
}
_BLOCK = 1024


def read_dsprites(path: Path, n_images: int | None, seed: int) -> FactorImages:
    """Draw images of ``dsprites_ndarray_….npz``; the one colour that there is counts for nothing.

    Raises:
        InputError: The file is another.
    """
    with NpzArchive(path) as archive:
        classes = archive.read("latents_classes")
        return _draw_sprites(archive, classes, n_images, seed)


def _draw_sprites(
    archive: NpzArchive, classes: NDArray[Any], n_images: int | None, seed: int
) -> FactorImages:
    if classes.ndim != 2 or classes.shape[1] != len(DSPRITES):
        raise InputError(
            f"{archive.path.name}: latents_classes has shape {classes.shape}; expected "
            f"(n, {len(DSPRITES)})"
        )
    rows = draw_rows(len(classes), n_images, seed)
    images = _draw_images(archive, "imgs", rows, n_rows=len(classes))
    # pixels are 0 and 1
    bright = (images * (255 // max(1, int(images.max())))).astype(np.uint8)
    drawn = classes[rows].astype(np.int64)
    factors = {name: drawn[:, number] for number, name in enumerate(DSPRITES) if number}
    return FactorImages(as_colour(bright), factors)


def read_mpi3d(
    path: Path,
    n_images: int | None,
    seed: int,
    levels: Mapping[int, tuple[int, ...]] = MPI3D_LEVELS,
) -> FactorImages:
    """Draw images of ``mpi3d_….npz``; their place in the file says the levels of their factors.

    Raises:
        InputError: The file is another.
    """
    with NpzArchive(path) as archive:
        n_rows = archive.header("images").shape[0]
        if n_rows not in levels:
            known = " or ".join(f"{number:,}" for number in levels)
            raise InputError(f"{path.name}: holds {n_rows:,} images; expected {known}")
        rows = draw_rows(n_rows, n_images, seed)
        images = _draw_images(archive, "images", rows, n_rows=n_rows)
    codes = np.unravel_index(rows, levels[n_rows])
    factors = {name: code.astype(np.int64) for name, code in zip(MPI3D, codes, strict=True)}
    return FactorImages(as_colour(images), factors)


def _draw_images(
    archive: NpzArchive, name: str, rows: IntArray, *, n_rows: int
) -> NDArray[np.uint8]:
    """Return some images, read in passing: the whole array may not fit into the memory."""
    label = f"{archive.path.name}: cannot read the array {name!r}"
    with archive.open(name) as stream:
        shape, is_fortran, dtype = read_header(stream, label)
        if is_fortran or dtype != np.uint8 or len(shape) not in (3, 4) or shape[0] != n_rows:
            order = ", in Fortran's order" if is_fortran else ""
            raise InputError(f"{label} ({dtype} of shape {shape}{order})")
        size = int(np.prod(shape[1:]))
        images = np.empty((rows.size, *shape[1:]), dtype=np.uint8)
        for start in range(0, shape[0], _BLOCK):
            stop = min(start + _BLOCK, shape[0])
            with reading(label, *ZIP_ERRORS):
                raw = stream.read((stop - start) * size)
            if len(raw) < (stop - start) * size:
                raise InputError(f"{label} (it ends early)")
            first, last = np.searchsorted(rows, (start, stop))
            block = np.frombuffer(raw, dtype=np.uint8).reshape(-1, *shape[1:])
            images[first:last] = block[rows[first:last] - start]
        return images
