"""Arrays in ``.npy`` and ``.npz`` files, read by position where they are not compressed."""

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from repalign.damage_errors import NPY_ERRORS, ZIP_ERRORS
from repalign.exceptions import InputError, reading
from repalign.expansion import TEXT_BYTES, check_copy, check_identities
from repalign.store.foreign.archives import data_start
from repalign.store.foreign.contents import (
    ID_NAMES,
    ForeignMatrix,
    ForeignRequest,
    check_matrix_shape,
    choose_view,
    texts_of,
)
from repalign.store.foreign.row_identities import RowIdentities
from repalign.store.rows.file import FileRows, open_file_rows
from repalign.store.rows.floats import float_type
from repalign.store.rows.spool import BLOCK_BYTES, spool_blocks, transposed

_NOT_NPY = "not a readable npy array"
_NOT_NPZ = "not a readable npz archive"


class _Header:
    """Shape, order and type of one array, and where its values start in the stream."""

    def __init__(self, stream: IO[bytes], *, label: str) -> None:
        # the stream may be of a member of an archive
        with reading(label, *NPY_ERRORS, *ZIP_ERRORS, problem=_NOT_NPY):
            version = np.lib.format.read_magic(stream)
        if version != (1, 0):  # the others hold records, under headers of up to 4 GiB
            raise InputError(f"{label}: is an array of npy version {version}; expected (1, 0)")
        with reading(label, *NPY_ERRORS, *ZIP_ERRORS, problem=_NOT_NPY):
            header = np.lib.format.read_array_header_1_0(stream)
        self.shape, self.is_fortran, self.dtype = header
        if self.dtype.hasobject:
            raise InputError(
                f"{label}: holds Python objects, which are never loaded, since they can run code; "
                "save plain numbers: np.save(path, np.stack(rows).astype(np.float32))"
            )
        self.offset = stream.tell()


def read_npy(request: ForeignRequest) -> ForeignMatrix:
    """Open the matrix of a ``.npy`` file."""
    label = str(request.path)
    with request.path.open("rb") as stream:
        header = _Header(stream, label=label)
    if request.view is not None:
        raise InputError(f"{label}: holds one array and no view {request.view!r}; leave it out")
    raw = _open_values(request.path, header, header.offset, label=label)
    return ForeignMatrix(view=request.path.stem, raw=raw, layout="numpy array")


def read_npz(request: ForeignRequest) -> ForeignMatrix:
    """Open one matrix of a ``.npz`` file; an array named ``ids`` or ``id`` gives the ids."""
    with reading(request.path, *ZIP_ERRORS, problem=_NOT_NPZ):
        archive = zipfile.ZipFile(request.path)
    with archive:
        return _read_archive(request, archive)


def _read_archive(request: ForeignRequest, archive: zipfile.ZipFile) -> ForeignMatrix:
    headers = {}
    for info in archive.infolist():
        name = info.filename.removesuffix(".npy")
        label = f"{request.path}::{name}"
        with _open_member(archive, info, label=label) as stream:
            headers[name] = _Header(stream, label=label)
    id_name = request.id_column or next((name for name in ID_NAMES if name in headers), None)
    matrices = {
        name: header.shape
        for name, header in headers.items()
        if name != id_name and name not in RowIdentities.NAMES and header.dtype.kind not in "SU"
    }
    view = choose_view(request, matrices)
    ids = None
    if id_name is not None:
        id_label = f"{request.path}::{id_name}"
        ids = texts_of(_read_small(request, archive, headers, id_name, "SUiu"), label=id_label)
    label = f"{request.path}::{view}"
    header = headers[view]
    info = _member(archive, view)
    if info.compress_type == zipfile.ZIP_STORED:
        _check_sum(archive, info, label=label)
        start = data_start(request.path, info) + header.offset
        raw = _open_values(request.path, header, start, label=label)
    else:
        raw = _decompress(request.path, archive, info, header, label=label)
    return ForeignMatrix(
        view=view,
        raw=raw,
        layout="numpy archive",
        ids=ids,
        ids_from="" if id_name is None else f"{request.path}::{id_name}",
        **_identity(request, archive, headers),
    )


def _member(archive: zipfile.ZipFile, name: str) -> zipfile.ZipInfo:
    names = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
    return names[name]


def _open_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, *, label: str) -> IO[bytes]:
    with reading(label, *ZIP_ERRORS, problem=_NOT_NPZ):
        return archive.open(info)


def _read_member(stream: IO[bytes], n_bytes: int, *, label: str) -> bytes:
    """Read bytes of a member; at its end zipfile compares the checksum."""
    with reading(label, *ZIP_ERRORS, problem=_NOT_NPZ):
        return stream.read(n_bytes)


def _check_sum(archive: zipfile.ZipFile, info: zipfile.ZipInfo, *, label: str) -> None:
    """Read a member once: zipfile compares its checksum at the end."""
    with _open_member(archive, info, label=label) as stream:
        while _read_member(stream, 2**20, label=label):
            pass


def _identity(
    request: ForeignRequest, archive: zipfile.ZipFile, headers: dict[str, _Header]
) -> dict[str, Any]:
    """Return token positions and input hashes, where the archive has them."""
    return {
        name: _read_small(request, archive, headers, name, "iu")
        for name in RowIdentities.NAMES
        if name in headers
    }


def _read_small(
    request: ForeignRequest,
    archive: zipfile.ZipFile,
    headers: dict[str, _Header],
    name: str,
    kinds: str,
) -> NDArray[Any]:
    """Read an array that says what the rows are."""
    label = f"{request.path}::{name}"
    if name not in headers:
        raise InputError(
            f"{request.path}: has no array {name!r} of ids; it has {', '.join(headers)}"
        )
    header = headers[name]
    n_values = int(np.prod(header.shape, dtype=object))
    # numbers stay an array, texts become those of Python
    n_bytes = n_values * (header.dtype.itemsize + (TEXT_BYTES if "S" in kinds else 0))
    check_identities(n_bytes, label=label, stored=request.path.stat().st_size)
    if header.dtype.kind not in kinds:
        raise InputError(
            f"{label}: is {header.dtype} of shape {header.shape}; expected one text or integer per "
            "row"
        )
    with (
        _open_member(archive, _member(archive, name), label=label) as stream,
        reading(label, *NPY_ERRORS, *ZIP_ERRORS, problem=_NOT_NPY),
    ):
        values: NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
    return values


def _open_values(path: Path, header: _Header, offset: int, *, label: str) -> FileRows:
    shape = check_matrix_shape(header.shape, label=label)
    float_type(header.dtype, label=label)
    if not header.is_fortran:
        return open_file_rows(path, shape=shape, dtype=header.dtype, offset=offset)
    columns = open_file_rows(path, shape=(shape[1], shape[0]), dtype=header.dtype, offset=offset)
    return transposed(columns, label=label)


def _decompress(
    path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo, header: _Header, *, label: str
) -> FileRows:
    """Unpack a compressed array to a temporary file, in one pass."""
    shape = check_matrix_shape(header.shape, label=label)
    float_type(header.dtype, label=label)
    check_copy(path, shape[0] * shape[1] * header.dtype.itemsize, label=label)
    stored = (shape[1], shape[0]) if header.is_fortran else shape
    with _open_member(archive, info, label=label) as stream:
        _read_member(stream, header.offset, label=label)
        blocks = _row_blocks(stream, stored, header.dtype, label=label)
        rows = spool_blocks(
            blocks, n_rows=stored[0], n_columns=stored[1], dtype=header.dtype, label=label
        )
    return transposed(rows, label=label) if header.is_fortran else rows


def _row_blocks(
    stream: IO[bytes], shape: tuple[int, int], dtype: np.dtype[Any], *, label: str
) -> Iterator[NDArray[Any]]:
    row_bytes = shape[1] * dtype.itemsize
    step = max(1, BLOCK_BYTES // row_bytes)
    for start in range(0, shape[0], step):
        count = min(step, shape[0] - start)
        data = _read_member(stream, count * row_bytes, label=label)
        if len(data) < count * row_bytes:
            raise InputError(
                f"{label}: ends inside row {start + len(data) // row_bytes} of {shape[0]}; "
                "it was cut or damaged, write it again"
            )
        yield np.frombuffer(data, dtype=dtype).reshape(count, shape[1])
    _read_member(stream, 1, label=label)  # reaching the end makes zipfile compare the checksum
