"""A repalign store as a source of embeddings."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from repalign.exceptions import InputError, SeveralViewsError
from repalign.files import check_local, open_regular
from repalign.store.format.digests import content_fingerprint
from repalign.store.format.hdf5 import HDF5_ERRORS, h5py
from repalign.store.format.schema import DESCRIPTION, INDEX, MANIFEST, Column
from repalign.store.joining.index import POOLED, RowIndex
from repalign.store.reading.store import Store, StoreView, open_store
from repalign.store.sources.source import IDENTIFYING, EmbeddingSource, Identity

HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
IMPORTED = "imported"  # key of the spec of a store that was made from foreign embeddings


def is_store(path: Path) -> bool:
    """Return whether a path is a repalign store, be it damaged, and no foreign file."""
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
    if not path.exists():
        check_local(path)
        raise InputError(f"{path}: there is no such file or directory")
    if not is_store(path):
        raise InputError(
            f"{path}: is not a repalign store; only stores carry checksums, make one with: "
            "repalign store import"
        )


def native_source(path: Path, *, view: str | None = None) -> EmbeddingSource:
    """Open a view of a repalign store; values are read when they are asked for.

    The row index is read now: about 30 bytes a row and the ids.

    Raises:
        StoreError: the store is damaged or not finished.
        InputError: no such view.
        SeveralViewsError: several and none was named.
    """
    store = open_store(path)
    if view is None and len(store.views) > 1:
        raise SeveralViewsError(
            f"{path}: has the views {', '.join(store.views)}; choose one: "
            f"{path}::{next(iter(store.views))}",
            list(store.views),
        )
    return _sources(store, path, [view])[0]


def native_sources(path: Path, views: Sequence[str]) -> list[EmbeddingSource]:
    """Open several views of a repalign store, whose row index is read once and shared.

    Raises:
        StoreError: the store is damaged or not finished.
        InputError: no such view.
    """
    return _sources(open_store(path), path, views)


def _sources(store: Store, path: Path, views: Sequence[str | None]) -> list[EmbeddingSource]:
    index = store.index
    identity = identity_of(index, store.spec)
    return [_source(store, path, store.view(view), index, identity) for view in views]


def _source(
    store: Store, path: Path, rows: StoreView, index: RowIndex, identity: Identity
) -> EmbeddingSource:
    return EmbeddingSource(
        name=str(path),
        path=path,
        view=rows.info.name,
        rows=rows,
        index=index,
        identity=identity,
        info={
            "layout": "repalign store",
            "ids_from": "the store" if identity != "row order" else "row order",
            "spec": dict(store.spec),
            "licence": store.info.licence,
        },
        has_sample_numbers=identity != "row order" and IMPORTED not in store.spec,
        chunk_rows=rows.info.column.leaf_rows,
        known_fingerprint=_fingerprint(store, rows.info.column, identity),
    )


def _fingerprint(store: Store, values: Column, identity: Identity) -> str | None:
    """Return the fingerprint of a view from the digests that the store has.

    None if its files do not end with whole leaves: then it takes reading all values, on demand.
    """
    if not store.is_aligned(values):
        return None
    paths = {name: f"{INDEX}/{name}" for name in IDENTIFYING[identity]}
    stored = store.roots(values.path, *paths.values())
    roots = {"values": stored[values.path]}
    roots |= {name: stored[path] for name, path in paths.items()}
    return content_fingerprint(len(store), values, roots)


def identity_of(index: RowIndex, spec: Any) -> Identity:
    """Return what identifies the rows; numbers that only count the rows say nothing."""
    if index.ids is not None:
        return "ids"
    counts_rows = np.array_equal(index.sample, np.arange(len(index))) and bool(
        (index.token == POOLED).all()
    )
    if IMPORTED in spec or (index.sample_sha is None and counts_rows):
        return "row order"
    return "sample numbers"
