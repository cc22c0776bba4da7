"""Open embeddings of any kind: a store, a foreign file or an object in memory."""

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from repalign.aliases import Rows
from repalign.arguments import checked
from repalign.exceptions import InputError, SeveralViewsError, reading
from repalign.files import check_local, open_regular
from repalign.store.digests import content_fingerprint
from repalign.store.directory import parts_directory
from repalign.store.format import DESCRIPTION, INDEX, MANIFEST, Column
from repalign.store.formats.contents import ForeignMatrix, ForeignRequest, check_id_count
from repalign.store.formats.formats import BY_SUFFIX, of_folder
from repalign.store.formats.identifiers import FILE_NAMES, read_bound_ids, read_ids
from repalign.store.hdf5 import HDF5_ERRORS, h5py
from repalign.store.in_memory import object_matrix
from repalign.store.index import POOLED, RowIndex, encode_ids
from repalign.store.matching import number_samples
from repalign.store.reader import Store, open_store
from repalign.store.rows import FloatRows
from repalign.store.source import (
    IDENTIFYING,
    EmbeddingSource,
    Identity,
    Locator,
    fingerprint_of,
    parse_locator,
    values_root,
    with_ids,
)

if TYPE_CHECKING:
    import pandas as pd
    import torch

Embeddings: TypeAlias = (
    "EmbeddingSource | Store | Rows | str | Path | NDArray[Any] | torch.Tensor | pd.DataFrame"
    " | Sequence[Any]"
)

HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
IMPORTED = "imported"  # key of the spec of a store that was made from foreign embeddings
SIDECAR_SUFFIX = ".ids.txt"
ALL = "all"
WILD = set("*?[")
# Where a layer stands whose name carries no number: before the numbered ones, or behind them.
FIRST = ("embeddings", "embedding", "embed", "input", "stem")
LAST = ("pre-norm", "final", "output", "logits")


@checked
def open_embeddings(
    path: str | Path,
    *,
    view: str | None = None,
    ids: str | Path | Sequence[str] | None = None,
    id_column: str | None = None,
    leave_out: Collection[str] = (),
) -> EmbeddingSource:
    """Open one set of embeddings for reading in blocks.

    Args:
        path: file or directory, or ``path::view``.
        view: which matrix of the file, where it has several.
        ids: one id per row of a foreign file that carries none: a list, a file of lines, or
            ``table.csv::column``.
        id_column: column or array of the same foreign file that holds the ids.
        leave_out: columns of a foreign table that are not values, such as labels and batches;
            those named ``Metadata_…`` and those of text never are.

    Raises:
        InputError: no such file, an unknown layout, or values that cannot be embeddings.
        StoreError: a repalign store that is damaged or not finished.
        MissingExtraError: the reader of this layout is an optional dependency.

    Example:
        >>> import numpy as np
        >>> np.savez("two-arrays.npz", emb=np.eye(3), ids=["a", "b", "c"])
        >>> source = open_embeddings("two-arrays.npz::emb")
        >>> source.n_rows, source.dim, source.identity
        (3, 3, 'ids')
    """
    locator = parse_locator(path)
    if view is not None and locator.view is not None and view != locator.view:
        raise InputError(f"{path}: got the view {locator.view!r} and view={view!r}; give one")
    request = ForeignRequest(
        locator.path, view=view or locator.view, id_column=id_column, leave_out=leave_out
    )
    check_exists(request.path)
    with reading(request.path):
        if not is_store(request.path):
            matrix = _with_ids(request, _read_foreign(request), ids)
            return _matrix_source(matrix, name=str(request.path), path=request.path)
    if ids is not None or id_column is not None:
        raise InputError(
            f"{request.path}: is a repalign store, which carries the identity of its rows; leave "
            "the ids out"
        )
    return _store_sources(request.path, [request.view])[0]


def check_exists(path: Path) -> None:
    """Check that there is a file or a directory at a path.

    Raises:
        InputError: there is nothing, a pipe or device, or only a store that is not finished.
    """
    if path.is_file() or path.is_dir():
        return
    if path.exists():
        # embeddings are read more than once, and opening a pipe would wait for ever
        raise InputError(f"{path}: is a pipe or a device; write the embeddings to a file first")
    parts = parts_directory(path)
    if parts.exists():
        raise InputError(
            f"{path}: is not finished, its shards are in {parts}; continue the run that writes it"
        )
    check_local(path)
    raise InputError(f"{path}: there is no such file or directory")


@checked
def as_source(
    embeddings: Embeddings,
    *,
    ids: Sequence[str] | None = None,
    name: str = "array",
    leave_out: Collection[str] = (),
) -> EmbeddingSource:
    """Return embeddings of any kind as a source.

    Paths are opened, sources are passed on.

    Args:
        embeddings: a source, a path (``file::view``), an open store of one view, a numpy array, a
            torch tensor, a pandas frame (a column called ``id`` gives the ids, or the index,
            unless it is a plain range), nested lists, or anything that is read in slices
            (``Rows``).
        ids: one id per row, for embeddings that carry none; their own ids are kept.
        name: how messages and results call an object in memory.
        leave_out: columns of a table or frame that are not values, such as labels and batches;
            those named ``Metadata_…`` and those of text never are.

    Raises:
        InputError: not a matrix of finite numbers, or not one id per row.

    Example:
        >>> import numpy as np
        >>> source = as_source(np.eye(2), name="mine", ids=["cat", "dog"])
        >>> source.name, source.n_rows, source.identity
        ('mine', 2, 'ids')
    """
    if isinstance(embeddings, EmbeddingSource):
        source = embeddings
    elif isinstance(embeddings, str | Path):
        source = open_embeddings(embeddings, leave_out=leave_out)
    elif isinstance(embeddings, Store):
        source = open_embeddings(embeddings.path)
    else:
        matrix = object_matrix(embeddings, name, leave_out)
        source = _matrix_source(matrix, name=name, path=None)
    return source if ids is None else with_ids(source, ids)


def layer_order(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of views as the layers follow each other.

    Numbers count as numbers (``block-2`` before ``block-10``); the embeddings come first, what
    stands behind the last block comes last.
    """
    return tuple(sorted(names, key=_place))


def _place(name: str) -> tuple[int, tuple[tuple[int, int, str], ...], str]:
    stem = re.split(r"[.:/]", name)[0].lower()
    rank = len(FIRST)
    if stem in FIRST:
        rank = FIRST.index(stem)
    elif stem in LAST:
        rank = len(FIRST) + 1 + LAST.index(stem)
    parts = re.split(r"(\d+)", name)
    return rank, tuple((1, int(p), "") if p.isdecimal() else (0, 0, p) for p in parts), name


def list_views(path: str | Path) -> tuple[str, ...]:
    """Return the views of a file by name, in the order of the layers.

    Raises:
        InputError: there is no such file, or none that can be read.
    """
    path = Path(path)
    check_exists(path)
    if is_store(path):
        with open_store(path) as store:
            return layer_order(list(store.views))
    try:
        return (open_embeddings(path).view,)
    except SeveralViewsError as several:
        return layer_order(several.views)


def open_views(locator: str | Path, layers: Sequence[str] = ()) -> list[EmbeddingSource]:
    """Open the views that a locator names, with their places in the file.

    ``file::view`` is that view, ``file::block-*`` all that match; a file alone is its only view,
    or with ``layers`` those that match any of them (``all`` matches all).

    Raises:
        InputError: there is no such file, or a pattern takes none of its views.
        SeveralViewsError: there are several views, and none is named.
    """
    located = parse_locator(locator)
    if located.view is None and not layers:
        return [open_embeddings(located.path)]
    views = list_views(located.path)
    if located.view is None:
        selected = _select(located.path, views, layers)
    elif located.view in views or not WILD & set(located.view):
        return [_open_view(located, views)]
    else:
        selected = _select(located.path, views, [located.view])
    if len(selected) > 1 and is_store(located.path):
        return [_with_layer(source, views) for source in _store_sources(located.path, selected)]
    return [_open_view(Locator(located.path, view), views) for view in selected]


def _select(path: Path, views: Sequence[str], patterns: Sequence[str]) -> list[str]:
    if list(views) == [path.stem] and not is_store(path):
        return list(views)  # the format knows no views, so that no pattern can choose
    selected = set()
    for pattern in patterns:
        matches = {v for v in views if pattern in (ALL, v) or fnmatchcase(v, pattern)}
        if not matches:
            raise InputError(f"{path}: no view matches {pattern!r}; it has {', '.join(views)}")
        selected |= matches
    return [view for view in views if view in selected]


def _open_view(located: Locator, views: Sequence[str]) -> EmbeddingSource:
    # a file of one matrix takes no view, one of several needs it
    alone = len(views) == 1 and located.view == views[0]
    return _with_layer(open_embeddings(located.path, view=None if alone else located.view), views)


def _with_layer(source: EmbeddingSource, views: Sequence[str]) -> EmbeddingSource:
    return replace(source, layer=views.index(source.view) if source.view in views else None)


def is_store(path: Path) -> bool:
    """Return whether a path is a repalign store, sound or damaged."""
    if path.is_dir():
        return (path / MANIFEST).exists() or (path / DESCRIPTION).exists()
    with open_regular(path) as stream:
        if stream.read(len(HDF5_SIGNATURE)) != HDF5_SIGNATURE:
            return False
    try:
        with h5py.File(path, "r", locking=False) as file:
            return bool(h5py.h5a.exists(file.id, b"format"))
    except HDF5_ERRORS:
        return path.suffix == ".h5"  # too damaged to tell; stores are named so


def check_is_store(path: Path) -> None:
    """Check that a path is a repalign store, sound or damaged.

    Raises:
        InputError: there is nothing, or a foreign file.
    """
    check_exists(path)
    if not is_store(path):
        raise InputError(
            f"{path}: is not a repalign store; only stores carry checksums, make one with: "
            "repalign store import"
        )


def _store_sources(path: Path, views: Sequence[str | None]) -> list[EmbeddingSource]:
    """Open views of a store, which share its row index; None is its only view.

    The index is read now, about 30 bytes a row and the ids; values are read on demand.

    Raises:
        StoreError: the store is damaged or not finished.
        InputError: no such view.
        SeveralViewsError: several and none was named.
    """
    store = open_store(path)
    if None in views and len(store.views) > 1:
        raise SeveralViewsError(
            f"{path}: has the views {', '.join(store.views)}; choose one: "
            f"{path}::{next(iter(store.views))}",
            list(store.views),
        )
    index = store.index
    identity = identity_of(index, store.spec)
    info = {
        "layout": "repalign store",
        "ids_from": "the store" if identity != "row order" else "row order",
        "spec": dict(store.spec),
        "licence": store.description.licence,
    }
    return [
        EmbeddingSource(
            name=str(path),
            path=path,
            view=rows.info.name,
            rows=rows,
            index=index,
            identity=identity,
            info=info,
            has_sample_numbers=identity != "row order" and IMPORTED not in store.spec,
            chunk_rows=rows.info.column.leaf_rows,
            known_fingerprint=_stored_fingerprint(store, rows.info.column, identity),
        )
        for rows in map(store.view, views)
    ]


def _stored_fingerprint(store: Store, values: Column, identity: Identity) -> str | None:
    """Return the fingerprint of a view from stored digests.

    None if its files do not end with whole leaves: then it takes reading all values, on demand.
    """
    if not store.is_aligned(values):
        return None
    paths = {"values": values.path}
    paths |= {name: f"{INDEX}/{name}" for name in IDENTIFYING[identity]}
    stored = store.roots(*paths.values())
    roots = {name: stored[path] for name, path in paths.items()}
    return content_fingerprint(len(store), values, roots)


def identity_of(index: RowIndex, spec: Any) -> Identity:
    """Return which columns identify the rows; numbers that only count them do not."""
    if index.ids is not None:
        return "ids"
    counts_rows = np.array_equal(index.sample, np.arange(len(index))) and bool(
        (index.token == POOLED).all()
    )
    if IMPORTED in spec or (index.sample_sha is None and counts_rows):
        return "row order"
    return "sample numbers"


def _matrix_source(matrix: ForeignMatrix, *, name: str, path: Path | None) -> EmbeddingSource:
    """Return a foreign matrix, of a file or of an object, as a source.

    Raises:
        InputError: values that are not numbers, or not one id for every row.
    """
    label = name if path is None else f"{path}::{matrix.view}"
    rows = FloatRows(matrix.raw, label=label, bfloat16=matrix.bfloat16)
    if matrix.ids is not None:
        check_id_count(matrix.ids, rows.shape[0], ids_from=matrix.ids_from, label=label)
    index = _index(matrix, rows.shape[0])
    known_fingerprint = None
    if matrix.ids_of is not None:
        root = values_root(rows)
        if matrix.ids_of != fingerprint_of(rows, root):
            raise InputError(
                f"{matrix.ids_from}: its ids belong to other values than those of {label}; export "
                "both again, or remove it and give ids that belong to these rows (--ids)"
            )
        known_fingerprint = fingerprint_of(rows, root, index, "ids")
    return EmbeddingSource(
        name=name,
        path=path,
        view=matrix.view,
        rows=rows,
        index=index,
        identity="row order" if matrix.ids is None else "ids",
        known_fingerprint=known_fingerprint,
        chunk_rows=matrix.chunk_rows,
        info={
            "layout": matrix.layout,
            "ids_from": matrix.ids_from or "row order",
            **matrix.details,
            **({"left_out": list(matrix.left_out)} if matrix.left_out else {}),
        },
        columns=None if matrix.columns is None else tuple(matrix.columns),
    )


def _read_foreign(request: ForeignRequest) -> ForeignMatrix:
    if request.path.is_dir():
        return of_folder(request.path).read(request)
    entry = BY_SUFFIX.get(request.path.suffix.lower())
    if entry is None:
        raise InputError(
            f"{request.path}: has no known suffix; expected a repalign store or one of "
            f"{', '.join(BY_SUFFIX)}"
        )
    return entry.read(request)


def _with_ids(
    request: ForeignRequest, matrix: ForeignMatrix, ids: str | Path | Sequence[str] | None
) -> ForeignMatrix:
    """Add the ids of the call, or of a file next to the matrix, to the matrix."""
    if request.id_column is not None and matrix.ids is None:
        raise InputError(
            f"{request.path}: has no {request.id_column!r} that could hold ids; give them in a "
            "file (--ids)"
        )
    if ids is not None and matrix.ids is not None:
        raise InputError(
            f"{request.path}: carries its own ids ({matrix.ids_from}); leave the other ids out, "
            "or name another column (--id-column)"
        )
    if isinstance(ids, str | Path):
        return replace(matrix, ids=read_ids(str(ids)), ids_from=str(ids))
    if ids is not None:
        return replace(matrix, ids=list(ids), ids_from="the ids given")
    if matrix.ids is not None:
        return matrix
    sidecars = [request.path.with_name(request.path.stem + SIDECAR_SUFFIX)]
    if request.path.stem == "features":
        sidecars.append(request.path.with_name(FILE_NAMES))
    sidecar = next((path for path in sidecars if path.is_file()), None)
    if sidecar is None:
        return matrix
    ids, ids_of = read_bound_ids(sidecar)
    details = dict(matrix.details)
    if sidecar.name != FILE_NAMES:  # which an extractor writes with the features
        details["ids_verified"] = ids_of is not None
    return replace(matrix, ids=ids, ids_from=str(sidecar), ids_of=ids_of, details=details)


def _index(matrix: ForeignMatrix, n_rows: int) -> RowIndex:
    places = np.arange(n_rows, dtype=np.int64)
    ids = None if matrix.ids is None else encode_ids(matrix.ids)
    pooled = np.full(n_rows, POOLED, dtype=np.int32)
    if ids is None or matrix.token is None:
        token = pooled if matrix.token is None else matrix.token
        return RowIndex(places, token, matrix.sample_sha, ids)
    # several rows of one id are tokens of one sample
    by_id = RowIndex(places, pooled, ids=ids)
    return RowIndex(number_samples(by_id), matrix.token, matrix.sample_sha, ids)
