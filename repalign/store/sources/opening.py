"""Open embeddings of any kind: a repalign store or a foreign file, told apart by content."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from repalign.arguments import checked
from repalign.exceptions import InputError, reading
from repalign.files import check_local
from repalign.store.foreign.contents import ForeignMatrix, ForeignRequest, check_id_count
from repalign.store.foreign.formats import BY_SUFFIX, of_folder
from repalign.store.foreign.identifiers import FILE_NAMES, read_bound_ids, read_ids
from repalign.store.format.directory import parts_directory
from repalign.store.joining.index import POOLED, RowIndex, encode_ids
from repalign.store.joining.matching import number_samples
from repalign.store.rows.floats import FloatRows
from repalign.store.sources.native import is_store, native_source
from repalign.store.sources.source import (
    EmbeddingSource,
    fingerprint_of,
    parse_locator,
    values_root,
)

SIDECAR_SUFFIX = ".ids.txt"


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
        leave_out: columns of a foreign table that are no values, such as labels and batches;
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
        raise InputError(f"{path}: names the view {locator.view!r}, asked is {view!r}; give one")
    request = ForeignRequest(
        locator.path, view=view or locator.view, id_column=id_column, leave_out=leave_out
    )
    check_exists(request.path)
    with reading(request.path):
        if not is_store(request.path):
            return _open_foreign(request, ids=ids)
    if ids is not None or id_column is not None:
        raise InputError(
            f"{request.path}: is a repalign store, which carries the identity of its rows; leave "
            "the ids out"
        )
    return native_source(request.path, view=request.view)


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


def _open_foreign(
    request: ForeignRequest, *, ids: str | Path | Sequence[str] | None
) -> EmbeddingSource:
    matrix = _with_ids(request, _read(request), ids)
    return matrix_source(matrix, name=str(request.path), path=request.path)


def matrix_source(matrix: ForeignMatrix, *, name: str, path: Path | None) -> EmbeddingSource:
    """Return a foreign matrix, of a file or of a frame in memory, as a source.

    Raises:
        InputError: values that are no numbers, or not one id for every row.
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


def _read(request: ForeignRequest) -> ForeignMatrix:
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
    """Add the ids that were given, or that lie beside the file, to the matrix."""
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
