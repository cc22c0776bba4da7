"""dSprites and MPI3D: one array of all images in an npz file, in the order of their factors."""

import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from repalign.aliases import IntArray
from repalign.damage_errors import NPY_ERRORS, ZIP_ERRORS
from repalign.exceptions import InputError, reading
from repalign.experiments.factor_images.images import FactorImages, as_colour, draw_rows

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
    classes = _whole(path, "latents_classes")
    if classes.ndim != 2 or classes.shape[1] != len(DSPRITES):
        raise InputError(
            f"{path.name}: latents_classes has shape {classes.shape}; expected (n, {len(DSPRITES)})"
        )
    rows = draw_rows(len(classes), n_images, seed)
    images = _some(path, "imgs", rows, n_rows=len(classes))
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
    n_rows = _shape(path, "images")[0]
    if n_rows not in levels:
        known = " or ".join(f"{number:,}" for number in levels)
        raise InputError(f"{path.name}: holds {n_rows:,} images; expected {known}")
    rows = draw_rows(n_rows, n_images, seed)
    codes = np.unravel_index(rows, levels[n_rows])
    factors = {name: code.astype(np.int64) for name, code in zip(MPI3D, codes, strict=True)}
    return FactorImages(as_colour(_some(path, "images", rows, n_rows=n_rows)), factors)


def _whole(path: Path, name: str) -> NDArray[Any]:
    problem = _problem(name)
    with path.open("rb") as stream:
        with reading(path.name, *NPY_ERRORS, *ZIP_ERRORS, problem=problem):
            file = np.load(stream, allow_pickle=False)
        if not isinstance(file, np.lib.npyio.NpzFile) or name not in file.files:
            raise InputError(f"{path.name}: {problem}")
        with reading(path.name, *NPY_ERRORS, *ZIP_ERRORS, problem=problem):
            return np.asarray(file[name])


def _shape(path: Path, name: str) -> tuple[int, ...]:
    with _open_array(path, name) as stream:
        return _header(stream, path, name)[0]


def _some(path: Path, name: str, rows: IntArray, *, n_rows: int) -> NDArray[np.uint8]:
    """Return some images, read in passing: the whole array may not fit into the memory."""
    with _open_array(path, name) as stream:
        shape, dtype = _header(stream, path, name)
        if dtype != np.uint8 or len(shape) not in (3, 4) or shape[0] != n_rows:
            raise InputError(f"{path.name}: {_problem(name)} ({dtype} of shape {shape})")
        size = int(np.prod(shape[1:]))
        images = np.empty((rows.size, *shape[1:]), dtype=np.uint8)
        for start in range(0, shape[0], _BLOCK):
            stop = min(start + _BLOCK, shape[0])
            with reading(path.name, *ZIP_ERRORS, problem=_problem(name)):
                raw = stream.read((stop - start) * size)
            if len(raw) < (stop - start) * size:
                raise InputError(f"{path.name}: {_problem(name)} (it ends early)")
            first, last = np.searchsorted(rows, (start, stop))
            block = np.frombuffer(raw, dtype=np.uint8).reshape(-1, *shape[1:])
            images[first:last] = block[rows[first:last] - start]
        return images


def _problem(name: str) -> str:
    return f"cannot read the array {name!r}"


@contextmanager
def _open_array(path: Path, name: str) -> Iterator[IO[bytes]]:
    with reading(path.name, *ZIP_ERRORS, problem=_problem(name)):
        archive = zipfile.ZipFile(path)
    with archive:
        # KeyError of an array that is not there
        with reading(path.name, *ZIP_ERRORS, KeyError, problem=_problem(name)):
            stream = archive.open(f"{name}.npy")
        with stream:
            yield stream


def _header(stream: IO[bytes], path: Path, name: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    with reading(path.name, *NPY_ERRORS, *ZIP_ERRORS, problem=_problem(name)):
        read = (
            np.lib.format.read_array_header_1_0
            if np.lib.format.read_magic(stream) == (1, 0)
            else np.lib.format.read_array_header_2_0
        )
        shape, is_fortran, dtype = read(stream)
    if is_fortran:
        raise InputError(f"{path.name}: {_problem(name)} (in Fortran's order)")
    return shape, dtype
