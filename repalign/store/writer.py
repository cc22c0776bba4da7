"""Writing a store: shards first, then one file, so that nothing committed is ever lost."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from repalign.aliases import FloatArray, Rows
from repalign.arguments import checked, is_a, listed
from repalign.exceptions import InputError, StoreError
from repalign.files import protecting, sync_file
from repalign.printable import printable
from repalign.store.directory import (
    parts_directory,
    remove_directory,
    shard_name,
    temporary_path,
)
from repalign.store.format import WriteOptions
from repalign.store.hdf5 import check_sizes, describe_environment
from repalign.store.header import Description, IndexLayout, ViewInfo
from repalign.store.index import RowIndex, concatenate_index, pooled_index
from repalign.store.reader import Store, StoreInfo
from repalign.store.rows import check_space, is_all_finite, unmasked
from repalign.store.shard_files import GONE, FileWriter, OnProgress, ShardDirectory

_BLOCK_ROWS = 8192
DEFAULT_VIEW = "embedding"


class StoreWriter(AbstractContextManager["StoreWriter"]):
    """Writes rows of one or several views as a store; use it as a context.

    While it is written a store is a directory of shards (``run.h5.parts`` for ``run.h5``). A path
    ending in ``.h5`` becomes one file at the end; any other path stays a directory. Leaving the
    context finishes the store; leaving it by an exception keeps the shards committed so far, and
    ``resume`` continues after them; where there are none, nothing is left behind.

    Rows come in order by :meth:`append`, or as whole shards by number with :meth:`write_shard`,
    which several processes may do at once for different numbers: give ``options.n_shards`` and
    ``options.n_writers``. Leaving the context then only commits, and the last process to call
    :meth:`finish` completes the store.

    A shard is synced and named in the background while the next one is written, and only after
    the one before it: what a killed writer leaves is a prefix.

    Args:
        path: where the store will be.
        spec: everything that determines the values, as JSON values.
        views: columns of every view, by name.
        options: types, sizes, notes.
        overwrite: replace what is there.
        resume: continue what is there, or begin it.
        restart: replace an unfinished store of the same settings, which a killed writer left.

    Attributes:
        directory: where the shards lie until the store is complete.
        n_rows: rows written so far.

    Raises:
        InputError: arguments that no store can have, or something exists at the path.
        StoreError: not enough disk, shards that cannot be continued (damaged, other spec), or
            another process is writing this store.

    Example:
        >>> import numpy as np, repalign
        >>> with StoreWriter("run.h5", spec={"model": "mine"}, views={"final": 4}) as writer:
        ...     for block in range(3):
        ...         writer.append({"final": np.full((2, 4), block / 2)})
        >>> repalign.open_embeddings("run.h5").n_rows
        6
    """

    @checked
    def __init__(
        self,
        path: str | Path,
        *,
        spec: Mapping[str, Any],
        views: Mapping[str, int],
        options: WriteOptions | None = None,
        overwrite: bool = False,
        resume: bool = False,
        restart: bool = False,
    ) -> None:
        self.path = Path(path)
        self.options = options or WriteOptions()
        self._views = tuple(
            ViewInfo(name, int(dim), self.options.dtype) for name, dim in views.items()
        )
        environment = describe_environment() | dict(self.options.environment)
        self._description = Description(self._views, spec, environment, self.options.licence)
        row_bytes = sum(view.column.row_bytes for view in self._views)
        self._shards = ShardDirectory(self.path, self._description, self.options)
        self.directory = self._shards.path
        try:
            if resume:
                self._shards.resume()
            n_rows = self.options.expected_rows
            if n_rows is not None and not self._shards.is_complete:
                to_write = max(0, n_rows - self._shards.n_rows)
                # packing needs the room of all rows again
                to_pack = n_rows if self._shards.is_packed else 0
                check_space(self.path, (to_write + to_pack) * row_bytes)
            if not resume:
                self._shards.begin(overwrite=overwrite, restart=restart)
        except BaseException:
            self._shards.release()
            raise
        self.n_rows = self._shards.n_rows
        self._committed = set(self._shards.numbers)
        # rows of the next shard, and how many are there
        self._capacity = self.options.rows_of_shard(row_bytes)
        self._buffers: dict[str, FloatArray] = {}
        self._indexes: list[RowIndex] = []
        self._n_buffered = 0
        self._thread = ThreadPoolExecutor(1, "repalign-commit")
        self._commit: Future[None] | None = None

    def __exit__(self, kind: type[BaseException] | None, *failure: object) -> None:
        if kind is None and self.options.n_shards is None:
            self.finish()
        else:
            self.close()

    @property
    def committed(self) -> tuple[int, ...]:
        """Numbers of the shards that were there at the start or were committed since."""
        return tuple(sorted(self._committed))

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left to write."""
        return self._shards.is_complete

    def append(self, views: Mapping[str, ArrayLike], index: RowIndex | None = None) -> None:
        """Add rows after those that are there.

        Args:
            views: ``(rows, dim)`` of every view.
            index: identities of the rows; by default pooled samples numbered in row order.

        Raises:
            InputError: other views or shapes, NaN, or values that the stored type cannot hold.
            StoreError: the store is finished, shards have a gap, or the disk is full.
        """
        self._check_open()
        if self.committed != tuple(range(len(self._committed))):
            raise StoreError(f"{self.directory}: shards have a gap; write the missing ones first")
        arrays = _check_rows(views, index, self._views)
        n_rows = len(next(iter(arrays.values())))
        if index is None:
            index = pooled_index(n_rows, start=self.n_rows)
        start = 0
        while start < n_rows:
            stop = min(n_rows, start + self._capacity - self._n_buffered)
            block = {name: values[start:stop] for name, values in arrays.items()}
            self._buffer(block, index.slice(start, stop))
            start = stop
            if self._n_buffered == self._capacity:
                self._write_buffered()

    def write_shard(self, number: int, views: Mapping[str, ArrayLike], index: RowIndex) -> None:
        """Write a whole shard; it is committed in the background, in the order of these calls.

        Raises:
            InputError: no rows, other views or shapes, NaN, or values that the type cannot hold.
            StoreError: the store is finished, the shard is there already, or the disk is full.
        """
        self._check_open()
        if number < 0 or number >= (self.options.n_shards or number + 1):
            raise InputError(
                f"shard {number}: numbers run from 0"
                + (f" to {self.options.n_shards - 1}" if self.options.n_shards else "")
            )
        if number in self._committed:
            raise StoreError(f"{self.directory}: shard {number} is already there; skip it")
        if not len(index):
            raise InputError(f"shard {number} has no rows; give at least one")
        arrays = _check_rows(views, index, self._views)
        self._write_shard(
            number, {view.name: _cast_rows(arrays[view.name], view) for view in self._views}, index
        )
        self.n_rows += len(index)

    def flush(self) -> None:
        """Wait until all whole shards are committed.

        Raises:
            StoreError: one of them could not be.
        """
        if self._commit is not None:
            self._commit.result()

    def finish(self, on_progress: OnProgress | None = None) -> StoreInfo | None:
        """Write what is left and make the store complete; return what it says of itself.

        Of several processes that write shards each calls it after its last one, and the last of
        them completes the store.

        Args:
            on_progress: called with the blocks packed and their total.

        Returns:
            What the store says of itself, or None if shards of the plan are missing yet.

        Raises:
            InputError: there are no rows.
            StoreError: shards have a gap or are damaged, or the disk is full.
        """
        if not self.is_complete:
            if self._n_buffered:
                self._write_buffered()
            with self._thread:
                self.flush()
            self._shards.complete(on_progress)
            self._shards.release()
        if not self.is_complete:
            return None
        with Store(self.path) as store:
            return store.info

    def close(self) -> None:
        """Commit whole shards and stop; where there are none, nothing stays.

        Rows of an unfinished shard are dropped.

        Raises:
            StoreError: a shard could not be committed.
        """
        try:
            with self._thread:
                self.flush()
            self._shards.remove_if_empty()
        finally:
            self._shards.release()

    def _check_open(self) -> None:
        """Refuse rows after the end."""
        if self.is_complete:
            raise StoreError(f"{self.path}: is complete; no rows can be added")

    def _buffer(self, block: Mapping[str, FloatArray], index: RowIndex) -> None:
        """Copy rows to those of the next shard, which has room for them."""
        start, stop = self._n_buffered, self._n_buffered + len(index)
        for view in self._views:
            if view.name not in self._buffers:
                shape = (self._capacity, view.dim)
                self._buffers[view.name] = np.empty(shape, dtype=view.column.dtype)
            _cast_rows(block[view.name], view, out=self._buffers[view.name][start:stop])
        self._indexes.append(index)
        self._n_buffered = stop
        self.n_rows += len(index)

    def _write_buffered(self) -> None:
        """Write the collected rows as the next shard."""
        arrays = {name: values[: self._n_buffered] for name, values in self._buffers.items()}
        index = concatenate_index(self._indexes)
        self._indexes, self._n_buffered = [], 0
        self._write_shard(len(self._committed), arrays, index)

    def _write_shard(self, number: int, arrays: Mapping[str, FloatArray], index: RowIndex) -> None:
        """Write the file of a shard and leave its commit to the background."""
        shard = self.directory / shard_name(number)
        temporary = temporary_path(shard)
        id_bytes = 0 if index.ids is None else max(1, index.ids.dtype.itemsize)
        layout = IndexLayout(tuple(index.columns), id_bytes)
        with _removed_on_failure(temporary, shard):
            with FileWriter(
                temporary, self._description, layout, n_rows=len(index), shard=number
            ) as file:
                for dataset, values in zip(layout.datasets(), index.columns.values(), strict=True):
                    file.write(dataset, 0, values)
                for view in self._views:
                    file.write(view.column, 0, arrays[view.name])
                header = file.finish()
            check_sizes(header, temporary.stat().st_size, str(shard))
            self.flush()  # a shard that failed is not followed by another
        self._commit = self._thread.submit(self._commit_shard, temporary, shard)
        self._committed.add(number)

    def _commit_shard(self, temporary: Path, shard: Path) -> None:
        """Make a written shard durable and give it its name."""
        with _removed_on_failure(temporary, shard):
            sync_file(temporary)
            temporary.replace(shard)
            sync_file(self.directory)


@contextmanager
def _removed_on_failure(temporary: Path, shard: Path) -> Iterator[None]:
    """Leave no temporary file behind, and name the shard that could not be written."""
    try:
        yield
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if not shard.parent.is_dir():
            raise StoreError(f"{shard.parent}: {GONE}") from error
        if isinstance(error, OSError | RuntimeError):
            reason = " ".join(str(error).split())[:160]
            raise StoreError(f"{shard}: cannot be written ({reason})") from error
        raise


def _check_rows(
    arrays: Mapping[str, ArrayLike], index: RowIndex | None, views: Sequence[ViewInfo]
) -> dict[str, FloatArray]:
    """Return the arrays of all views after checking names, shapes and types.

    Raises:
        InputError: not exactly the views of the store, other shapes, or no floating type.
    """
    names = [view.name for view in views]
    if set(arrays) != set(names):
        got = ", ".join(sorted(arrays)) or "none"
        raise InputError(f"views given: {got}; the store has {', '.join(names)}: give all of them")
    checked_arrays = {}
    n_rows = None if index is None else len(index)
    for view in views:
        values = unmasked(arrays[view.name], label=f"view {view.name}")
        if n_rows is None:
            n_rows = len(values) if values.ndim else 0
        if values.dtype.kind != "f" or values.shape != (n_rows, view.dim):
            raise InputError(
                f"view {view.name}: got {values.dtype} of shape {values.shape}; expected floating "
                f"numbers of shape ({n_rows}, {view.dim})"
            )
        checked_arrays[view.name] = values
    return checked_arrays


def _cast_rows(values: FloatArray, view: ViewInfo, out: FloatArray | None = None) -> FloatArray:
    """Return rows in the stored type.

    Raises:
        InputError: NaN or infinite values, or values that the stored type cannot hold.
    """
    with np.errstate(over="ignore"):  # an overflow is reported below
        if out is None:
            out = np.ascontiguousarray(values, dtype=view.column.dtype)
        else:
            np.copyto(out, values, casting="same_kind")
    if is_all_finite(out):
        return out
    row, place = (int(i[0]) for i in np.nonzero(~np.isfinite(out)))
    value = float(values[row, place])
    if np.isfinite(value):
        raise InputError(
            f"view {view.name}: {value:g} in row {row} does not fit {view.dtype}; "
            "store a wider type"
        )
    raise InputError(
        f"view {view.name}: row {row} of the rows given holds {value}; leave such rows out or "
        "repair what made them"
    )


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
        InputError: arrays that are not embeddings of the same rows, not one id a row, an argument
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
