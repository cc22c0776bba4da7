"""Images from arrays: .npy and .npz files and the IDX files that MNIST comes in."""

import gzip
import hashlib
import math
import struct
import zlib
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repalign.damage_errors import NPY_ERRORS
from repalign.data.samples import Sample
from repalign.exceptions import InputError, reading
from repalign.files import check_regular, file_sha256, open_regular
from repalign.limits import MAX_HELD_BYTES, MAX_PIXELS
from repalign.npy import NOT_NPY, NpzArchive, read_header

_NAMES = ("images", "x", "X", "data", "arr_0")


class ArrayImages:
    """Images in one array ``(n, height, width[, channels])`` of uint8; ids are row numbers from 0.

    The array may be anything with a shape, a dtype and reading by row.

    Raises InputError for another shape or dtype.
    """

    def __init__(self, array: Any, description: dict[str, object]) -> None:
        check_images(tuple(array.shape), array.dtype, str(description.get("name", "the array")))
        self._array = array
        self.description = description

    def __len__(self) -> int:
        return int(self._array.shape[0])

    def read(self, index: int) -> Sample:
        """Return one sample."""
        from PIL import Image

        with reading(self.description.get("name", "the array")):
            pixels = np.ascontiguousarray(self._array[index])
        if pixels.ndim == 3 and pixels.shape[2] == 1:
            pixels = pixels[:, :, 0]
        digest = hashlib.sha256(repr(pixels.shape).encode() + pixels.tobytes()).digest()
        return Sample(str(index), digest, Image.fromarray(pixels))


def check_images(shape: tuple[int, ...], dtype: Any, name: str) -> None:
    """Check that an array of this shape and type holds images of a size that is read.

    Raises InputError for any other.
    """
    is_image = len(shape) == 3 or (len(shape) == 4 and shape[3] in (1, 3))
    if not is_image or dtype != np.uint8:
        raise InputError(
            f"{name} holds {dtype} of shape {shape}; expected uint8 images "
            "(n, height, width) or (n, height, width, 1 or 3)"
        )
    height, width = shape[1:3]
    if shape[0] < 0 or min(height, width) < 1 or height * width > MAX_PIXELS:
        raise InputError(
            f"{name} has {shape[0]} images of {width}×{height} pixels; expected 1 to {MAX_PIXELS} "
            "pixels each"
        )


def open_npz(path: Path, column: str | None = None) -> ArrayImages:
    """Images from one array of a .npz file, ``column`` or the one that is named like images.

    Raises InputError when there is no such array, it is too large, or it cannot be read.
    """
    check_regular(path)
    with NpzArchive(path) as archive:
        names = [column] if column else [name for name in _NAMES if name in archive.names]
        if not names or names[0] not in archive.names:
            raise InputError(
                f"no array {column or 'of images'} in {path.name}; found "
                f"{', '.join(archive.names) or 'none'}: choose one with --column"
            )
        header = archive.header(names[0])
        check_images(header.shape, header.dtype, f"{path.name}::{names[0]}")
        _check_held(math.prod(header.shape), path.name)
        array = archive.read(names[0])
    description: dict[str, object] = {
        "format": "npz",
        "name": path.name,
        "sha256": file_sha256(path),
        "column": names[0],
    }
    return ArrayImages(array, description)


def open_npy(path: Path) -> ArrayImages:
    """Images from a .npy file, read as they are needed.

    Raises InputError when it holds anything else or cannot be read.
    """
    with open_regular(path) as file:
        header = read_header(file, path.name)
    check_images(header.shape, header.dtype, path.name)
    with reading(path.name, *NPY_ERRORS, problem=NOT_NPY):
        array = np.load(path, allow_pickle=False, mmap_mode="r")
    description: dict[str, object] = {
        "format": "npy",
        "name": path.name,
        "sha256": file_sha256(path),
    }
    return ArrayImages(array, description)


def _check_held(n_bytes: int, name: str) -> None:
    if n_bytes > MAX_HELD_BYTES:
        raise InputError(
            f"{name} announces {n_bytes} bytes; at most {MAX_HELD_BYTES} are held in memory: save "
            "the images with numpy.save as .npy, which is read as it is needed"
        )


def is_idx(path: Path) -> bool:
    """Whether a file is named like an IDX file of images, gzipped or not."""
    name = path.name.removesuffix(".gz")
    return name.endswith((".idx", "-ubyte")) or "-idx" in name


def open_idx(path: Path) -> ArrayImages:
    """Images from an IDX file of unsigned bytes, as MNIST ships them.

    Raises InputError when the header is of another kind or the size is not what it says.
    """
    array = read_idx(path, "images", dimensions=(3, 4))
    description: dict[str, object] = {
        "format": "idx",
        "name": path.name,
        "sha256": file_sha256(path),
    }
    return ArrayImages(array, description)


def read_idx(path: Path, what: str, *, dimensions: tuple[int, ...]) -> NDArray[np.uint8]:
    """Read unsigned bytes of an IDX file, gzipped or not.

    Args:
        path: the file.
        what: what it should hold, for messages.
        dimensions: how many it may have.

    Raises InputError when the header is of another kind or the size is not what it says.
    """
    expected = " or ".join(map(str, dimensions))
    try:
        with (
            open_regular(path) as plain,
            gzip.open(plain) if path.suffix == ".gz" else nullcontext(plain) as file,
        ):
            zeros, kind, ndim = struct.unpack(">HBB", file.read(4))
            if zeros or kind != 8 or ndim not in dimensions:
                raise InputError(
                    f"{path.name} is not an IDX file of {what} (kind {kind}, {ndim} dimensions); "
                    f"expected unsigned bytes in {expected} dimensions"
                )
            shape = struct.unpack(f">{ndim}I", file.read(4 * ndim))
            size = math.prod(shape)
            _check_held(size, path.name)
            # one byte more than announced is enough to see that the size is wrong
            raw = file.read(size + 1)
    except (OSError, EOFError, struct.error, zlib.error) as error:
        raise InputError(f"{path.name} is not a readable IDX file: {error}") from error
    if len(raw) != size:
        raise InputError(
            f"{path.name} announces {size} bytes of {what} and holds other; truncated?"
        )
    return np.frombuffer(raw, dtype=np.uint8).reshape(shape)
