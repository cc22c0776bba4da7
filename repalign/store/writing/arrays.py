"""Writing arrays that are already there as a store, in one call."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from repalign.aliases import Rows
from repalign.exceptions import InputError
from repalign.store.format.directory import parts_directory, remove_directory
from repalign.store.joining.index import ReadableIndex, pooled_index
from repalign.store.reading.info import StoreInfo
from repalign.store.rows.floats import unmasked
from repalign.store.writing.options import WriteOptions
from repalign.store.writing.packing import OnProgress
from repalign.store.writing.writer import StoreWriter

_BLOCK_ROWS = 8192
DEFAULT_VIEW = "embedding"


def write_store(
    path: str | Path,
    views: ArrayLike | Rows | Mapping[str, ArrayLike | Rows],
    *,
    index: ReadableIndex | None = None,
    spec: Mapping[str, Any] | None = None,
    options: WriteOptions | None = None,
    overwrite: bool = False,
    on_progress: OnProgress | None = None,
) -> StoreInfo:
    """Write arrays as a store.

    Args:
        path: the store; a file if it ends in ``.h5``, else a directory.
        views: ``(rows, dim)`` arrays by name, or one array, whose view is named ``embedding``.
            Anything that is read in slices (:class:`repalign.aliases.Rows`) is copied in blocks.
        index: identities of the rows; by default pooled samples numbered in row order.
        spec: everything that determines the values, as JSON values.
        options: types, compression, sizes, notes.
        overwrite: replace what is there.
        on_progress: called with the rows written and their total.

    Returns:
        What the store says of itself.

    Raises:
        InputError: arrays that are no embeddings of the same rows, or something exists there.
        StoreError: the store cannot be written.

    Example:
        >>> import numpy as np
        >>> info = write_store("digits.h5", np.eye(3), spec={"model": "identity"})
        >>> info.n_rows
        3
    """
    sources = _sources(views)
    n_rows = next(iter(sources.values())).shape[0]
    index = pooled_index(n_rows) if index is None else index
    _check_lengths(sources, index)
    dims = {name: rows.shape[1] for name, rows in sources.items()}
    writer = StoreWriter(path, spec=spec or {}, views=dims, options=options, overwrite=overwrite)
    try:
        with writer:
            _append_all(writer, sources, index, on_progress)
    except BaseException:
        # there is nothing to continue from: the caller has all rows
        directory = parts_directory(writer.path)
        if directory.exists():
            remove_directory(directory)
        raise
    return writer.finish()


def _append_all(
    writer: StoreWriter,
    sources: Mapping[str, Any],
    index: ReadableIndex,
    on_progress: OnProgress | None,
) -> None:
    """Copy all rows in blocks."""
    n_rows = len(index)
    for start in range(0, n_rows, _BLOCK_ROWS):
        stop = min(n_rows, start + _BLOCK_ROWS)
        block = {name: _read(rows, start, stop) for name, rows in sources.items()}
        writer.append(block, index.slice(start, stop))
        if on_progress:
            on_progress(stop, n_rows)


def _sources(views: Any) -> dict[str, Any]:
    """Return every view as something with a two-dimensional shape."""
    named = views if isinstance(views, Mapping) else {DEFAULT_VIEW: views}
    if not named:
        raise InputError("no views given; a store has at least one")
    sources = {
        name: rows if isinstance(rows, Rows) else unmasked(rows, label=f"view {name}")
        for name, rows in named.items()
    }
    for name, rows in sources.items():
        if len(rows.shape) != 2 or rows.dtype.kind != "f":
            raise InputError(
                f"view {name}: got {rows.dtype} of shape {tuple(rows.shape)}; expected floating "
                "numbers of shape (rows, dim)"
            )
    return sources


def _check_lengths(sources: Mapping[str, Any], index: ReadableIndex) -> None:
    """Refuse views that have not one row per identity."""
    for name, rows in sources.items():
        if rows.shape[0] != len(index):
            raise InputError(
                f"view {name} has {rows.shape[0]} rows, the index has {len(index)}; every row has "
                "one identity"
            )


def _read(rows: Any, start: int, stop: int) -> Any:
    """Return a block of an array or of rows that are read in slices."""
    return rows.read(start, stop) if isinstance(rows, Rows) else rows[start:stop]
