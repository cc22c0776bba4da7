"""Arrays in ``.npy`` files, mapped into memory, and in ``.npz`` archives, copied out of them."""

import math
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repalign.damage_errors import NPY_ERRORS, ZIP_ERRORS
from repalign.exceptions import InputError, reading
from repalign.expansion import TEXT_BYTES, check_copy, check_identities
from repalign.npy import NOT_NPY, NOT_NPZ, NpzArchive
from repalign.rows import ArrayRows
from repalign.store.formats.contents import (
    ID_NAMES,
    ForeignMatrix,
    ForeignRequest,
    check_matrix_shape,
    choose_view,
    texts_of,
)
from repalign.store.formats.identifiers import RowIdentities
from repalign.store.rows import MappedRows, check_temporary_space, float_type


def read_npy(request: ForeignRequest) -> ForeignMatrix:
    """Open the matrix of a ``.npy`` file."""
    path, view = request.path, request.view
    if view is not None:
        raise InputError(f"{path}: holds one array and no view {view!r}; leave it out")
    values = _map_array(path, label=str(path))
    return ForeignMatrix(view=path.stem, raw=MappedRows.of(values, path), layout="numpy array")


def read_npz(request: ForeignRequest) -> ForeignMatrix:
    """Open one matrix of a ``.npz`` file; an array named ``ids`` or ``id`` gives the ids."""
    with NpzArchive(request.path) as archive:
        headers = {name: archive.header(name) for name in archive.names}
        objects = next((name for name, header in headers.items() if header.dtype.hasobject), None)
        if objects is not None:
            raise InputError(f"{request.path}::{objects}: {NOT_NPY} (it holds Python objects)")
        id_name = request.id_column or next((name for name in ID_NAMES if name in headers), None)
        ids = None
        if id_name is not None:
            label = f"{request.path}::{id_name}"
            ids = texts_of(_read_identity(archive, id_name, "SUiu"), label=label)
        shapes = {
            name: header.shape
            for name, header in headers.items()
            if name not in (id_name, *RowIdentities.NAMES) and header.dtype.kind not in "SU"
        }
        view = choose_view(request, shapes)
        token, sample_sha = (
            _read_identity(archive, name, "iu") if name in headers else None
            for name in RowIdentities.NAMES
        )
        return ForeignMatrix(
            view=view,
            raw=ArrayRows(_copy_out(archive, view)),
            layout="numpy archive",
            ids=ids,
            ids_from="" if id_name is None else f"{request.path}::{id_name}",
            token=token,
            sample_sha=sample_sha,
        )


def _copy_out(archive: NpzArchive, name: str) -> NDArray[Any]:
    """Return an array that was copied to a temporary file."""
    label = f"{archive.path}::{name}"
    check_matrix_shape(archive.header(name).shape, label=label)
    check_copy(archive.path, archive.n_bytes(name), label=label)
    check_temporary_space(archive.n_bytes(name), label=label)
    with tempfile.NamedTemporaryFile(prefix="repalign-") as copy, archive.open(name) as stream:
        with reading(label, *ZIP_ERRORS, problem=NOT_NPZ):
            shutil.copyfileobj(stream, copy, 2**20)
        copy.flush()
        return _map_array(Path(copy.name), label=label)


def _read_identity(archive: NpzArchive, name: str, kinds: str) -> NDArray[Any]:
    """Read an array that identifies the rows, of types of these kinds."""
    label = f"{archive.path}::{name}"
    if name not in archive.names:
        raise InputError(
            f"{archive.path}: has no array {name!r} of ids; it has {', '.join(archive.names)}"
        )
    shape, _, dtype = archive.header(name)
    # numbers stay an array, texts become those of Python
    value_bytes = dtype.itemsize + (TEXT_BYTES if "S" in kinds else 0)
    check_identities(
        math.prod(shape) * value_bytes, label=label, stored=archive.path.stat().st_size
    )
    if dtype.kind not in kinds:
        raise InputError(
            f"{label}: is {dtype} of shape {shape}; expected one text or integer per row"
        )
    return archive.read(name)


def _map_array(path: Path, *, label: str) -> NDArray[Any]:
    """Map the matrix of a file; numpy refuses Python objects, and files that are too short.

    Raises:
        InputError: no matrix of plain numbers.
    """
    with reading(label, *NPY_ERRORS, problem=NOT_NPY):
        values = np.lib.format.open_memmap(path, mode="r")
    check_matrix_shape(values.shape, label=label)
    float_type(values.dtype, label=label)
    return values
