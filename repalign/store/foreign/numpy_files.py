"""Arrays in ``.npy`` files, mapped into memory, and in ``.npz`` archives, copied out of them."""

import shutil
import tempfile
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from repalign.damage_errors import NPY_ERRORS, ZIP_ERRORS
from repalign.exceptions import InputError, reading
from repalign.expansion import TEXT_BYTES, check_copy, check_identities
from repalign.rows import ArrayRows
from repalign.store.foreign.contents import (
    ID_NAMES,
    ForeignMatrix,
    ForeignRequest,
    check_matrix_shape,
    choose_view,
    texts_of,
)
from repalign.store.foreign.identifiers import RowIdentities
from repalign.store.rows import MappedRows, check_temporary_space, float_type

_NOT_NPY = "not a readable npy array of plain numbers; save np.stack(rows).astype(np.float32)"
_NOT_NPZ = "not a readable npz archive"
_HEADER_READERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def read_npy(request: ForeignRequest) -> ForeignMatrix:
    """Open the matrix of a ``.npy`` file."""
    path, view = request.path, request.view
    if view is not None:
        raise InputError(f"{path}: holds one array and no view {view!r}; leave it out")
    values = _map_array(path, label=str(path))
    return ForeignMatrix(view=path.stem, raw=MappedRows.of(values, path), layout="numpy array")


def read_npz(request: ForeignRequest) -> ForeignMatrix:
    """Open one matrix of a ``.npz`` file; an array named ``ids`` or ``id`` gives the ids."""
    with reading(request.path, *ZIP_ERRORS, problem=_NOT_NPZ):
        archive = zipfile.ZipFile(request.path)
    with archive:
        arrays = _Arrays(request.path, archive)
        id_name = request.id_column or next(
            (name for name in ID_NAMES if name in arrays.infos), None
        )
        identity_names = {id_name, *RowIdentities.NAMES}
        ids = None if id_name is None else arrays.read_ids(id_name)
        view = choose_view(
            request,
            {
                name: shape
                for name, (shape, dtype) in arrays.headers.items()
                if name not in identity_names and dtype.kind not in "SU"
            },
        )
        ids_from = "" if id_name is None else f"{request.path}::{id_name}"
        return ForeignMatrix(
            view=view,
            raw=ArrayRows(arrays.copy_out(view)),
            layout="numpy archive",
            ids=ids,
            ids_from=ids_from,
            token=arrays.read_numbers("token"),
            sample_sha=arrays.read_numbers("sample_sha"),
        )


class _Arrays:
    """The arrays of an open archive, by name."""

    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        self._path = path
        self._archive = archive
        self.infos = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        self.headers = {name: self._read_header(name) for name in self.infos}

    def _open(self, name: str) -> IO[bytes]:
        with reading(f"{self._path}::{name}", *ZIP_ERRORS, problem=_NOT_NPZ):
            return self._archive.open(self.infos[name])

    def _read_header(self, name: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
        """Return shape and type of an array."""
        label = f"{self._path}::{name}"
        with self._open(name) as stream:
            with reading(label, *NPY_ERRORS, *ZIP_ERRORS, problem=_NOT_NPY):
                version = np.lib.format.read_magic(stream)
            if version not in _HEADER_READERS:
                raise InputError(f"{label}: is an array of npy version {version}; expected (1, 0)")
            with reading(label, *NPY_ERRORS, *ZIP_ERRORS, problem=_NOT_NPY):
                shape, _, dtype = _HEADER_READERS[version](stream)
        if dtype.hasobject:
            raise InputError(f"{label}: {_NOT_NPY} (it holds Python objects)")
        return shape, dtype

    def copy_out(self, name: str) -> NDArray[Any]:
        """Return an array that was copied to a temporary file; zipfile compares its checksum."""
        label = f"{self._path}::{name}"
        n_bytes = self.infos[name].file_size
        check_matrix_shape(self.headers[name][0], label=label)
        check_copy(self._path, n_bytes, label=label)
        check_temporary_space(n_bytes, label=label)
        with tempfile.NamedTemporaryFile(prefix="repalign-") as copy, self._open(name) as stream:
            with reading(label, *ZIP_ERRORS, problem=_NOT_NPZ):
                shutil.copyfileobj(stream, copy, 2**20)
            copy.flush()
            return _map_array(Path(copy.name), label=label)

    def read_ids(self, name: str) -> list[str]:
        """Read an array of texts or integers as texts."""
        label = f"{self._path}::{name}"
        return texts_of(self._read_identity(name, "SUiu"), label=label)

    def read_numbers(self, name: str) -> NDArray[Any] | None:
        """Read an array of integers that says what the rows are, if it is there."""
        return self._read_identity(name, "iu") if name in self.infos else None

    def _read_identity(self, name: str, kinds: str) -> NDArray[Any]:
        """Read an array that says what the rows are."""
        label = f"{self._path}::{name}"
        if name not in self.infos:
            raise InputError(
                f"{self._path}: has no array {name!r} of ids; it has {', '.join(self.infos)}"
            )
        shape, dtype = self.headers[name]
        # numbers stay an array, texts become those of Python
        n_bytes = int(np.prod(shape, dtype=object))
        n_bytes *= dtype.itemsize + (TEXT_BYTES if "S" in kinds else 0)
        check_identities(n_bytes, label=label, stored=self._path.stat().st_size)
        if dtype.kind not in kinds:
            raise InputError(
                f"{label}: is {dtype} of shape {shape}; expected one text or integer per row"
            )
        with self._open(name) as stream, reading(label, *NPY_ERRORS, *ZIP_ERRORS, problem=_NOT_NPY):
            values: NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
        return values


def _map_array(path: Path, *, label: str) -> NDArray[Any]:
    """Map the matrix of a file; numpy refuses Python objects, and files that are too short.

    Raises:
        InputError: no matrix of plain numbers.
    """
    with reading(label, *NPY_ERRORS, problem=_NOT_NPY):
        values = np.lib.format.open_memmap(path, mode="r")
    check_matrix_shape(values.shape, label=label)
    float_type(values.dtype, label=label)
    return values
