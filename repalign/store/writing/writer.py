"""Writing a store: shards first, then one file, so that nothing committed is ever lost."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from numpy.typing import ArrayLike

from repalign.aliases import FloatArray
from repalign.arguments import checked
from repalign.exceptions import InputError, StoreError
from repalign.store.format.layout import Description, ViewInfo, here_and_now
from repalign.store.joining.index import RowIndex, pooled_index
from repalign.store.reading.info import StoreInfo
from repalign.store.reading.store import Store
from repalign.store.writing.buffer import RowBuffer, cast_rows, check_rows
from repalign.store.writing.committer import ShardCommitter
from repalign.store.writing.options import WriteOptions
from repalign.store.writing.packing import OnProgress
from repalign.store.writing.shard_directory import Present, ShardDirectory


class StoreWriter:
    """Writes rows of one or several views as a store; use it as a context.

    While it is written a store is a directory of shards (``run.h5.parts`` for ``run.h5``). A path
    ending in ``.h5`` becomes one file at the end; any other path stays a directory. Leaving the
    context finishes the store; leaving it by an exception keeps the shards committed so far, and
    ``resume`` continues after them; where there are none, nothing is left behind.

    Rows come in order by :meth:`append`, or as whole shards by number with :meth:`write_shard`,
    which several processes may do at once for different numbers (give ``options.n_shards`` and
    ``options.n_writers``, and let each call :meth:`finish_when_whole`).

    Args:
        path: where the store will be.
        spec: everything that determines the values, as JSON values.
        views: columns of every view, by name.
        options: types, compression, sizes, notes.
        overwrite: replace what is there.
        resume: continue what is there, or begin it.
        restart: replace an unfinished store of the same settings, which a killed writer left.

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
        described = tuple(
            ViewInfo(name, int(dim), self.options.dtype) for name, dim in views.items()
        )
        environment = here_and_now() | dict(self.options.environment)
        self._description = Description(described, spec, environment, self.options.licence)
        row_bytes = sum(view.column.row_bytes for view in described)
        self._buffer = RowBuffer(self._description.views, self.options.rows_of_shard(row_bytes))
        self._shards = ShardDirectory(self.path, self._description, self.options)
        try:
            found = self._found(row_bytes, resume=resume)
            if not resume:
                self._shards.begin(overwrite=overwrite, restart=restart)
        except BaseException:
            self._shards.release()
            raise
        self.is_complete = found.is_complete
        self.n_rows = found.n_rows
        self._committed = set(found.numbers)
        if not self.is_complete:
            self._committer = ShardCommitter(self.directory, self._description)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *failure: object) -> None:
        if kind is None and self.options.n_shards is None:
            self.finish()
        elif kind is None:
            self.close()
        else:
            self.abandon()

    @property
    def directory(self) -> Path:
        """Where the shards lie until the store is complete."""
        return self._shards.path

    @property
    def committed(self) -> tuple[int, ...]:
        """Numbers of the shards that were there at the start or were committed since."""
        return tuple(sorted(self._committed))

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
        arrays = check_rows(views, index, self._description.views)
        n_rows = len(next(iter(arrays.values())))
        if index is None:
            index = pooled_index(n_rows, start=self.n_rows)
        at = 0
        while at < n_rows:
            stop = min(n_rows, at + self._buffer.room)
            self._buffer.append(
                {name: values[at:stop] for name, values in arrays.items()}, index.slice(at, stop)
            )
            self.n_rows += stop - at
            at = stop
            if self._buffer.room == 0:
                self._write_buffer()

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
        arrays = check_rows(views, index, self._description.views)
        stored = {view.name: cast_rows(arrays[view.name], view) for view in self._description.views}
        self._commit(number, stored, index)
        self.n_rows += len(index)

    def flush(self) -> None:
        """Wait until all whole shards are committed.

        Raises:
            StoreError: one of them could not be.
        """
        self._committer.wait()

    def finish(self, on_progress: OnProgress | None = None) -> StoreInfo:
        """Write what is left and make the store complete; return what it says of itself.

        Args:
            on_progress: called with the blocks packed and their total.

        Raises:
            InputError: there are no rows.
            StoreError: shards are missing or damaged, or the disk is full.
        """
        if not self.is_complete:
            if self._buffer.n_rows:
                self._write_buffer()
            self._committer.close()
            self._shards.complete(on_progress)
            self._shards.release()
            self.is_complete = True
        with Store(self.path) as store:
            return store.info

    def finish_when_whole(self, on_progress: OnProgress | None = None) -> StoreInfo | None:
        """Make the store complete if all planned shards are there, whoever wrote them.

        Every process that writes shards calls it after its last one: the last of them completes
        the store.

        Returns:
            What the store says of itself, or None if shards are missing yet.

        Raises:
            StoreError: shards are damaged, or the disk is full.
        """
        if self.options.n_shards is None:
            return self.finish(on_progress)
        if not self.is_complete:
            self.close()
            self.is_complete = self._shards.complete_when_whole(on_progress)
        if not self.is_complete:
            return None
        with Store(self.path) as store:
            return store.info

    def close(self) -> None:
        """Commit whole shards and stop; rows of an unfinished shard are dropped.

        Raises:
            StoreError: a shard could not be committed.
        """
        try:
            if not self.is_complete:
                self._committer.close()
        finally:
            self._shards.release()

    def abandon(self) -> None:
        """Stop after a failure: what is committed stays, and where nothing is, nothing stays.

        Raises:
            StoreError: a shard could not be committed.
        """
        try:
            if not self.is_complete:
                self._committer.close()
                self._shards.remove_if_empty()
        finally:
            self._shards.release()

    def _check_open(self) -> None:
        """Refuse rows after the end."""
        if self.is_complete:
            raise StoreError(f"{self.path}: is complete; no rows can be added")

    def _found(self, row_bytes: int, *, resume: bool) -> Present:
        """Return what is there to continue, if the disk has room for the others."""
        found = self._shards.take_over() if resume else Present()
        if not found.is_complete:
            is_packed = self._shards.is_packed
            self.options.check_disk(self.path, row_bytes, found.n_rows, is_packed=is_packed)
        return found

    def _write_buffer(self) -> None:
        """Write the collected rows as the next shard."""
        arrays, index = self._buffer.take_all()
        self._commit(len(self._committed), arrays, index)

    def _commit(self, number: int, arrays: Mapping[str, FloatArray], index: RowIndex) -> None:
        """Write a shard and remember its number."""
        self._committer.write(number, arrays, index)
        self._committed.add(number)
