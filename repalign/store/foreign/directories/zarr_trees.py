"""Arrays in zarr directories: one array, a group of them, or an AnnData object."""

import json
import math
import os
import struct
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repalign.aliases import IntArray
from repalign.exceptions import InputError, MissingExtraError, reading
from repalign.expansion import TEXT_BYTES, check_expansion, check_identities
from repalign.files import check_regular, open_regular
from repalign.store.foreign.contents import (
    ID_NAMES,
    ForeignMatrix,
    ForeignRequest,
    check_matrix_shape,
    choose_view,
    texts_of,
)

_DESCRIPTIONS = (".zarray", ".zmetadata", "zarr.json")
_MOST_BYTES = 2**26
_ANNDATA = ("X", "obsm/", "layers/")
# zarr takes the values of a damaged description as they are, and fails at the first that is of
# another type (AttributeError, TypeError) or not there (KeyError, IndexError, ImportError of a
# codec), at sizes of nothing or beyond all (ArithmeticError, MemoryError), and its codecs, in C,
# at damaged chunks (RuntimeError, SystemError, zlib.error).
ZARR_ERRORS: tuple[type[Exception], ...] = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    ImportError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    SystemError,
    TypeError,
    ValueError,
    struct.error,
    zlib.error,
)
_UNREADABLE = "not a readable zarr directory"


class ZarrRows:
    """Rows of an array, read chunk by chunk where they lie."""

    def __init__(self, array: Any, folder: Path, *, label: str) -> None:
        self._array = array
        self._label = label
        _check_array(array, folder, label=label)
        self.shape = check_matrix_shape(array.shape, label=label)
        self.dtype: np.dtype[Any] = np.dtype(array.dtype)
        self.chunk_rows = int(array.chunks[0])

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Return rows ``start`` to ``stop`` (exclusive) as a new array."""
        start, stop, _ = slice(start, stop).indices(self.shape[0])
        problem = f"rows {start} to {stop} cannot be read, is it damaged?"
        with reading(self._label, *ZARR_ERRORS, problem=problem):
            values = self._array[start : max(start, stop)]
        return np.asarray(values)

    def take(self, rows: IntArray) -> NDArray[Any]:
        """Return the given rows; they are strictly increasing."""
        problem = "some rows cannot be read, is it damaged?"
        with reading(self._label, *ZARR_ERRORS, problem=problem):
            values = self._array.get_orthogonal_selection((rows, slice(None)))
        return np.asarray(values)


def read_zarr(request: ForeignRequest) -> ForeignMatrix:
    """Open one matrix of a zarr directory.

    Of an AnnData object ``X``, ``obsm/…`` and ``layers/…``, with the names of the observations as
    ids; of any other group its arrays by path, with an array of ids beside them.
    """
    try:
        import zarr
    except ImportError as error:
        raise MissingExtraError("zarr", extra="zarr", purpose=f"reading {request.path}") from error
    _check_tree(request.path)
    with reading(request.path, *ZARR_ERRORS, problem=_UNREADABLE):
        root: Any = zarr.open(str(request.path), mode="r")
    if isinstance(root, zarr.Array):
        _check_described(root, label=str(request.path))
        return _matrix(request, {request.path.stem: root})
    arrays = dict(_arrays(root, zarr, label=str(request.path)))
    if _attributes(root, label=str(request.path)).get("encoding-type") == "anndata":
        return _matrix(request, arrays, index=request.id_column or _index_name(request, root, zarr))
    return _matrix(request, arrays)


def _index_name(request: ForeignRequest, root: Any, zarr: Any) -> str:
    """Return the name of the column of ``obs`` that names the observations."""
    label = f"{request.path}::obs"
    with reading(label, *ZARR_ERRORS, problem=_UNREADABLE):
        obs = root.get("obs")
    name = _attributes(obs, label=label).get("_index") if isinstance(obs, zarr.Group) else None
    if not isinstance(name, str):
        raise InputError(f"{label}: does not name the observations (_index); is it damaged?")
    return name


def _attributes(member: Any, *, label: str) -> dict[str, Any]:
    with reading(label, *ZARR_ERRORS, problem=_UNREADABLE):
        return dict(member.attrs)


def _matrix(
    request: ForeignRequest, arrays: Mapping[str, Any], *, index: str | None = None
) -> ForeignMatrix:
    """Return the matrix; ``index`` is the column of the names of an AnnData object."""
    is_anndata = index is not None
    id_name = request.id_column or next((name for name in ID_NAMES if name in arrays), None)
    if is_anndata:
        id_name = f"obs/{index}"
    if id_name is not None and id_name not in arrays:
        raise InputError(f"{request.path}: has no array {id_name!r} of ids")
    views = {
        name: array
        for name, array in arrays.items()
        if name != id_name
        and array.dtype.kind in "fiub"
        and (not is_anndata or name == "X" or name.startswith(_ANNDATA[1:]))
    }
    wanted = request.view
    if wanted is not None and f"obsm/{wanted}" in views:
        wanted = f"obsm/{wanted}"
    if is_anndata and wanted is not None and f"{wanted}/indptr" in arrays:
        raise InputError(f"{request.path}::{wanted}: is sparse; store it as a dense array")
    if is_anndata:
        # the parts of a sparse matrix are vectors
        views = {name: array for name, array in views.items() if array.ndim == 2}
    asked = ForeignRequest(request.path, view=wanted, id_column=request.id_column)
    view = choose_view(asked, {name: tuple(array.shape) for name, array in views.items()})
    raw = ZarrRows(views[view], request.path, label=f"{request.path}::{view}")
    ids_from = "" if id_name is None else f"{request.path}::{id_name}"
    return ForeignMatrix(
        view=view,
        raw=raw,
        layout="AnnData in zarr" if is_anndata else "zarr",
        ids=None if id_name is None else _texts(arrays[id_name], request.path, label=ids_from),
        ids_from=ids_from,
        chunk_rows=raw.chunk_rows,
    )


def _texts(array: Any, folder: Path, *, label: str) -> list[str]:
    stored = _check_array(array, folder, label=label)
    check_identities(array.size * (TEXT_BYTES + array.dtype.itemsize), label=label, stored=stored)
    with reading(label, *ZARR_ERRORS, problem=_UNREADABLE):
        values = np.asarray(array[:])
    # texts of any length, a type of numpy 2
    return texts_of(values.astype(object) if values.dtype.kind == "T" else values, label=label)


def _check_array(array: Any, folder: Path, *, label: str) -> int:
    """Check that no chunk is missing, and what the array becomes; return the bytes of its files.

    Args:
        array: the array.
        folder: the zarr directory that it is in.
        label: of the array, for messages.

    Raises:
        InputError: a chunk is missing, or too much would be expanded.
    """
    place = folder / array.path
    files = {path.relative_to(place).as_posix(): path for path in place.rglob("*")}
    with reading(label, *ZARR_ERRORS, problem=_UNREADABLE):
        chunks, sizes = array.chunks, array.shards or array.chunks
    for lengths in (chunks, sizes):
        if len(lengths) != array.ndim or not all(length > 0 for length in lengths):
            raise InputError(
                f"{label}: has shape {array.shape} in chunks of {lengths}; expected a size above "
                "zero for each dimension"
            )
    counts = [-(-length // size) for length, size in zip(array.shape, sizes, strict=True)]
    key = array.metadata.encode_chunk_key
    # compared first, since a small description may declare more chunks than can be looked for
    if math.prod(counts) > len(files) or any(key(at) not in files for at in np.ndindex(*counts)):
        raise InputError(
            f"{label}: lacks some of its {math.prod(counts)} chunks, which would be read as "
            f"{array.fill_value}; it is incomplete: copy it again (zarr also leaves chunks out "
            "that hold nothing else, unless its setting array.write_empty_chunks is on)"
        )
    stored = sum(files[key(at)].stat().st_size for at in np.ndindex(*counts))
    # a chunk is expanded as a whole, and may be larger than the array
    n_bytes = max(array.size, math.prod(sizes)) * array.dtype.itemsize
    check_expansion(stored, n_bytes, label=label)
    return stored


def _arrays(group: Any, zarr: Any, place: str = "", *, label: str) -> Iterator[tuple[str, Any]]:
    with reading(label, *ZARR_ERRORS, problem=_UNREADABLE):
        members = list(group.members())
    for name, member in members:
        if isinstance(member, zarr.Array):
            _check_described(member, label=f"{label}::{place}{name}")
            yield f"{place}{name}", member
        else:
            yield from _arrays(member, zarr, f"{place}{name}/", label=label)


def _check_described(array: Any, *, label: str) -> None:
    """Check that zarr can decode the description of an array.

    Raises:
        InputError: its description is damaged.
    """
    with reading(label, *ZARR_ERRORS, problem=_UNREADABLE):
        _ = array.shape, array.ndim, array.size, array.dtype.kind, array.dtype.itemsize


def _check_tree(root: Path) -> None:
    """Check, before zarr opens anything, that it can open nothing but plain files of this tree.

    Raises:
        InputError: a link, a pipe or a device, or arrays of pickled objects, which run code when
            they are read.
    """
    for folder, folders, files in os.walk(root):
        for name in [*folders, *files]:
            path = Path(folder) / name
            if path.is_symlink():
                raise InputError(f"{path}: is a link, which is not followed; put a copy there")
            if name in files:
                check_regular(path)
        for name in _DESCRIPTIONS:
            if name in files:
                _check_description(Path(folder) / name)


def _check_description(path: Path) -> None:
    with open_regular(path) as file:
        text = file.read(_MOST_BYTES)
    try:
        told = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not readable JSON; is it damaged?") from error
    if any("pickle" in word.lower() for word in _words(told)):
        raise InputError(
            f"{path}: describes pickled Python objects, which would run code; save plain "
            "numbers or text"
        )


def _words(told: Any) -> Iterator[str]:
    """Yield every text of a JSON document, as zarr reads it: escapes resolved."""
    waiting = [told]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            waiting += [*value.keys(), *value.values()]
        elif isinstance(value, list):
            waiting += value
