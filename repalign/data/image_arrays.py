"""Images from arrays: .npy and .npz files and the IDX files that MNIST comes in."""

import gzip
import hashlib
import math
import struct
import zipfile
import zlib
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repalign.data.samples import Sample
from repalign.exceptions import InputError
from repalign.files import check_regular, file_sha256, open_regular

_NAMES = ("images", "x", "X", "data", "arr_0")
_MAX_IDX_BYTES = 2 * 2**30


class ArrayImages:
    """Images in one array ``(n, height, width[, channels])`` of uint8; ids are row numbers from 0.

    The array may be anything with a shape, a dtype and reading by row.

    Raises InputError for another shape or dtype.
    """

    def __init__(self, array: Any, description: dict[str, object]) -> None:
        name = description.get("name", "the array")
        shape = tuple(array.shape)
        is_image = len(shape) == 3 or (len(shape) == 4 and shape[3] in (1, 3))
        if not is_image or array.dtype != np.uint8:
            raise InputError(
                f"{name} holds {array.dtype} of shape {shape}; expected uint8 images "
                "(n, height, width) or (n, height, width, 1 or 3)"
            )
        self._array = array
        self._description = description

    @property
    def description(self) -> dict[str, object]:
        """What the data are, as plain values."""
        return self._description

    def __len__(self) -> int:
        return int(self._array.shape[0])

    def read(self, index: int) -> Sample:
        """Return one sample."""
        from PIL import Image

        pixels = np.ascontiguousarray(self._array[index])
        if pixels.ndim == 3 and pixels.shape[2] == 1:
            pixels = pixels[:, :, 0]
        digest = hashlib.sha256(repr(pixels.shape).encode() + pixels.tobytes()).digest()
        return Sample(str(index), digest, Image.fromarray(pixels))


def open_npz(path: Path, column: str | None = None) -> ArrayImages:
    """Images from one array of a .npz file, ``column`` or the one that is named like images.

    Raises InputError when there is no such array or the file cannot be read.
    """
    check_regular(path)
    try:
        with np.load(path, allow_pickle=False) as archive:
            names = [column] if column else [n for n in _NAMES if n in archive.files]
            if not names or names[0] not in archive.files:
                raise InputError(
                    f"no array {column or 'of images'} in {path.name}; found "
                    f"{', '.join(archive.files) or 'none'}: choose one with --column"
                )
            array = archive[names[0]]
    except (OSError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(f"{path.name} is no readable .npz file: {error}") from error
    description: dict[str, object] = {
        "format": "npz",
        "name": path.name,
        "sha256": file_sha256(path),
        "column": names[0],
    }
    return ArrayImages(array, description)


def open_npy(path: Path) -> ArrayImages:
    """Images from a .npy file, read as they are needed.

    Raises InputError when it holds Python objects or cannot be read.
    """
    check_regular(path)
    try:
        array = np.load(path, allow_pickle=False, mmap_mode="r")
    except (OSError, ValueError, EOFError) as error:
        reason = "Python objects, which are not read" if "allow_pickle" in str(error) else error
        raise InputError(
            f"{path.name} is no readable array of images: {reason}; save uint8 images"
        ) from error
    description: dict[str, object] = {
        "format": "npy",
        "name": path.name,
        "sha256": file_sha256(path),
    }
    return ArrayImages(array, description)


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
                    f"{path.name} is no IDX file of {what} (kind {kind}, {ndim} dimensions); "
                    f"expected unsigned bytes in {expected} dimensions"
                )
            shape = struct.unpack(f">{ndim}I", file.read(4 * ndim))
            size = math.prod(shape)
            # one byte more than announced is enough to see that the size is wrong
            raw = file.read(min(size, _MAX_IDX_BYTES) + 1)
    except (OSError, EOFError, struct.error, zlib.error) as error:
        raise InputError(f"{path.name} is no readable IDX file: {error}") from error
    if len(raw) != size:
        raise InputError(
            f"{path.name} announces {size} bytes of {what} and holds other; truncated?"
        )
    return np.frombuffer(raw, dtype=np.uint8).reshape(shape)
