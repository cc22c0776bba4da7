"""Arrays in zarr directories: one array, a group of them, or an AnnData object."""

import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repalign.aliases import IntArray
from repalign.exceptions import InputError, MissingExtraError
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
from repalign.store.foreign.damage import refuse_damage

_DESCRIPTIONS = (".zarray", ".zmetadata", "zarr.json")
_MOST_BYTES = 2**26
_ANNDATA = ("X", "obsm/", "layers/")


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
        with refuse_damage(f"{self._label}: rows {start} to {stop} cannot be read, is it damaged?"):
            return np.asarray(self._array[start : max(start, stop)])

    def take(self, rows: IntArray) -> NDArray[Any]:
        """Return the given rows; they are strictly increasing."""
        with refuse_damage(f"{self._label}: some rows cannot be read, is it damaged?"):
            return np.asarray(self._array.get_orthogonal_selection((rows, slice(None))))


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
    with refuse_damage(f"{request.path}: is no readable zarr directory"):
        root: Any = zarr.open(str(request.path), mode="r")
        if isinstance(root, zarr.Array):
            arrays, is_anndata = {request.path.stem: root}, False
        else:
            arrays = dict(_arrays(root, zarr))
            is_anndata = root.attrs.get("encoding-type") == "anndata"
        return _matrix(request, root, arrays, is_anndata=is_anndata)


def _matrix(
    request: ForeignRequest, root: Any, arrays: Mapping[str, Any], *, is_anndata: bool
) -> ForeignMatrix:
    id_name = request.id_column or next((name for name in ID_NAMES if name in arrays), None)
    if is_anndata:
        id_name = f"obs/{request.id_column or root['obs'].attrs['_index']}"
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
    sizes = [int(size) for size in getattr(array, "shards", None) or array.chunks]
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


def _arrays(group: Any, zarr: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    for name, member in group.members():
        if isinstance(member, zarr.Array):
            yield f"{place}{name}", member
        else:
            yield from _arrays(member, zarr, f"{place}{name}/")


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
        raise InputError(f"{path}: is no readable JSON; is it damaged?") from error
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
