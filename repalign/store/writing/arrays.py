"""Writing arrays that are already there as a store, in one call."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from repalign.aliases import Rows
from repalign.arguments import checked, is_a, listed
from repalign.exceptions import InputError
from repalign.files import protecting
from repalign.printable import printable
from repalign.store.format.directory import parts_directory, remove_directory
from repalign.store.joining.index import RowIndex, pooled_index
from repalign.store.reading.store import Store, StoreInfo
from repalign.store.rows.floats import unmasked
from repalign.store.writing.files import OnProgress
from repalign.store.writing.options import WriteOptions
from repalign.store.writing.writer import StoreWriter

_BLOCK_ROWS = 8192
DEFAULT_VIEW = "embedding"


@checked
def write_store(
    path: str | Path,
    views: ArrayLike | Rows | Mapping[str, ArrayLike | Rows],
    *,
    spec: Mapping[str, Any] | None = None,
    ids: Sequence[str] | None = None,
    index: RowIndex | None = None,
    options: WriteOptions | None = None,
    overwrite: bool = False,
    on_progress: OnProgress | None = None,
) -> StoreInfo:
    """Write arrays as a store.

    A call with a spec begins again over what the same call left when its process was killed.

    Args:
        path: the store; a file if it ends in ``.h5``, else a directory.
        views: ``(rows, dim)`` arrays by name, or one array, whose view is named ``embedding``.
            Anything that is read in slices (:class:`repalign.aliases.Rows`) is copied in blocks.
        spec: everything that determines the values, as JSON values.
        ids: one text a row.
        index: a whole row index, in place of ids; by default pooled samples numbered in row order.
        options: types, sizes, notes.
        overwrite: replace what is there.
        on_progress: called with the rows written and their total.

    Returns:
        What the store says of itself.

    Raises:
        InputError: arrays that are no embeddings of the same rows, not one id a row, an argument
            of another kind, rows that are read from what would be replaced, or something exists
            there.
        StoreError: the store cannot be written.

    Example:
        >>> import numpy as np
        >>> info = write_store("digits.h5", np.eye(3), spec={"model": "identity"})
        >>> info.n_rows
        3
        >>> import repalign
        >>> info = repalign.write_store("named.h5", np.eye(2), ids=["cat", "dog"])
        >>> repalign.open_embeddings("named.h5").identity
        'ids'
    """
    sources = _sources(views)
    n_rows = next(iter(sources.values())).shape[0]
    index = _make_index(n_rows, ids, index)
    for name, rows in sources.items():
        if rows.shape[0] != len(index):
            raise InputError(
                f"view {name} has {rows.shape[0]} rows, the index has {len(index)}; every row has "
                "one identity"
            )
    with protecting(_source_paths(sources.values())):
        writer = StoreWriter(
            path,
            spec=spec or {},
            views={name: rows.shape[1] for name, rows in sources.items()},
            options=replace(options or WriteOptions(), n_shards=None),
            overwrite=overwrite,
            restart=bool(spec),  # without one nothing says that it is the same store
        )
        try:
            with writer:
                for start in range(0, n_rows, _BLOCK_ROWS):
                    stop = min(n_rows, start + _BLOCK_ROWS)
                    block = {name: _read(rows, start, stop) for name, rows in sources.items()}
                    writer.append(block, index.slice(start, stop))
                    if on_progress:
                        on_progress(stop, n_rows)
        except BaseException:
            # there is nothing to continue from: the caller has all rows
            directory = parts_directory(writer.path)
            if directory.exists():
                remove_directory(directory)
            raise
        info = writer.finish()
        assert info is not None, "a store without a plan is complete"
        return info


def _source_paths(sources: Iterable[Any]) -> Iterator[Path]:
    """Yield the files and folders that rows or an index are read from, whatever wraps them."""
    for source in sources:
        attributes = list(vars(source).values()) if hasattr(source, "__dict__") else []
        attributes += [
            part for value in attributes if isinstance(value, list | tuple) for part in value
        ]
        yield from (value for value in attributes if isinstance(value, Path))
        yield from _source_paths(value for value in attributes if isinstance(value, Rows | Store))


def _make_index(n_rows: int, ids: Any, index: RowIndex | None) -> RowIndex:
    """Return the identities of the rows."""
    if index is not None:
        if ids is not None:
            raise InputError("ids: got them together with index; expected one of the two")
        return index
    if ids is None:
        return pooled_index(n_rows)
    texts = listed("ids", ids, "texts, one a row")
    wrong = [(row, text) for row, text in enumerate(texts) if not isinstance(text, str)]
    if wrong:
        row, value = wrong[0]
        raise InputError(f"ids: got {value!r} for row {row}, expected a text")
    if len(texts) != n_rows:
        raise InputError(f"ids: got {len(texts)} for {n_rows} rows; expected one a row")
    return pooled_index(n_rows, ids=texts)


def _sources(views: Any) -> dict[str, Any]:
    """Return every view as something with a two-dimensional shape."""
    named = views if isinstance(views, Mapping) else {DEFAULT_VIEW: views}
    if not named:
        raise InputError("no views given; a store has at least one")
    sources = {
        name: rows if isinstance(rows, Rows) else _array(rows, f"view {name}")
        for name, rows in named.items()
    }
    for name, rows in sources.items():
        if len(rows.shape) != 2 or rows.dtype.kind != "f":
            raise InputError(
                f"view {name}: got {rows.dtype} of shape {tuple(rows.shape)}; expected floating "
                "numbers of shape (rows, dim)"
            )
    return sources


def _array(rows: Any, label: str) -> Any:
    if is_a(rows, "torch", "Tensor"):
        rows = rows.detach()
    try:
        np.asarray(rows)  # lists of unequal lengths, tensors elsewhere
    except (TypeError, ValueError, RuntimeError) as failure:
        raise InputError(
            f"{label}: {type(rows).__name__} is not a matrix of numbers "
            f"({printable(str(failure))}); give an array of shape (rows, dim)"
        ) from failure
    return unmasked(rows, label=label)


def _read(rows: Any, start: int, stop: int) -> Any:
    """Return a block of an array or of rows that are read in slices."""
    return rows.read(start, stop) if isinstance(rows, Rows) else rows[start:stop]
