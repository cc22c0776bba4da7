"""Arrays in npy files and npz archives: headers before values, and never a pickle."""

import zipfile
from pathlib import Path
from typing import IO, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from repalign.damage_errors import NPY_ERRORS, ZIP_ERRORS
from repalign.exceptions import InputError, reading

NOT_NPY = "not a readable npy array of plain numbers; save np.stack(rows).astype(np.float32)"
NOT_NPZ = "not a readable npz archive"
_READERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


class Header(NamedTuple):
    """What an array declares before its values."""

    shape: tuple[int, ...]
    is_fortran: bool
    dtype: np.dtype[Any]


def read_header(stream: IO[bytes], name: object) -> Header:
    """Read the header of an array; the stream then stands at the values.

    Raises:
        InputError: no array, or one of another version of the format.
    """
    with reading(name, *NPY_ERRORS, *ZIP_ERRORS, problem=NOT_NPY):
        version = np.lib.format.read_magic(stream)
    if version not in _READERS:
        raise InputError(f"{name}: is an array of npy version {version}; expected (1, 0)")
    with reading(name, *NPY_ERRORS, *ZIP_ERRORS, problem=NOT_NPY):
        return Header(*_READERS[version](stream))


class NpzArchive:
    """The arrays of an npz archive, which zipfile compares with their checksums; use as a context.

    Args:
        path: the file.

    Raises:
        InputError: no archive.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with reading(path, *ZIP_ERRORS, problem=NOT_NPZ):
            self._archive = zipfile.ZipFile(path)
        self._members = {
            info.filename.removesuffix(".npy"): info for info in self._archive.infolist()
        }
        self.names = list(self._members)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self._archive.close()

    def n_bytes(self, name: str) -> int:
        """Return the size that an array declares, with its header."""
        return self._members[name].file_size

    def open(self, name: str) -> IO[bytes]:
        """Open an array as the npy file that it is.

        Raises:
            InputError: there is none of this name, or it is damaged.
        """
        if name not in self._members:
            raise InputError(
                f"{self.path}: has no array {name!r}; it has {', '.join(self.names) or 'none'}"
            )
        with reading(f"{self.path}::{name}", *ZIP_ERRORS, problem=NOT_NPZ):
            return self._archive.open(self._members[name])

    def header(self, name: str) -> Header:
        """Read the header of an array.

        Raises:
            InputError: as for ``open``, or it is not an array.
        """
        with self.open(name) as stream:
            return read_header(stream, f"{self.path}::{name}")

    def read(self, name: str) -> NDArray[Any]:
        """Read a whole array.

        Raises:
            InputError: as for ``header``, or its values are Python objects.
        """
        label = f"{self.path}::{name}"
        with self.open(name) as stream, reading(label, *NPY_ERRORS, *ZIP_ERRORS, problem=NOT_NPY):
            values: NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
        return values
