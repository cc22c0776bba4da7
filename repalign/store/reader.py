"""Read a store, one packed file or a directory of shards, in blocks.

Every value is checked against its digest. HDF5 finds the chunks and hands over their bytes
(``read_direct_chunk``), straight into the array that is returned: half again as fast as reading
through its chunk cache.
"""

import os
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from repalign.aliases import FloatArray, IntArray
from repalign.arguments import check_kind, checked
from repalign.exceptions import InputError, StoreError, reading
from repalign.store.digests import column_root, fingerprint_of, leaf_digest
from repalign.store.directory import DirectoryContent, ShardRecord, read_directory, shard_name
from repalign.store.format import (
    DIGESTS,
    FORMAT_VERSION,
    INDEX_LEAF_ROWS,
    Column,
    VerifyMode,
)
from repalign.store.hdf5 import file_size, open_checked, reading_hdf5
from repalign.store.header import Description, Header, IndexLayout, ViewInfo, columns_of
from repalign.store.index import RowIndex
from repalign.store.rows import is_all_finite

_MAX_OPEN = 16
_LEAVES_FOR_TWO = 8
_INDEX_BLOCK = 256 * INDEX_LEAF_ROWS


class StoreFile:
    """A checked file whose columns are opened at their first use.

    Args:
        path: the file.
        shard: number of the shard that it must be; None for a packed store.
        first_row: number of its first row in the store.
    """

    def __init__(self, path: Path, *, shard: int | None = None, first_row: int = 0) -> None:
        self.path = path
        self.first_row = first_row
        self.handle, self.header = open_checked(path, shard=shard)
        self._columns: dict[str, ColumnReader] = {}

    def column(self, path: str) -> "ColumnReader":
        """Return the reader of a column."""
        if path not in self._columns:
            column = next(column for column in self.header.columns if column.path == path)
            self._columns[path] = ColumnReader(self, column)
        return self._columns[path]


class ColumnReader:
    """Verified rows of one dataset of one open file.

    Raises:
        StoreError: its digests are not those of the header, or chunks are missing.
    """

    def __init__(self, file: StoreFile, column: Column) -> None:
        self.column = column
        self.where = f"{file.path}: {column.path}"
        self.n_rows = file.header.n_rows
        self._first_row = file.first_row
        digests = f"{DIGESTS}/{column.path}"
        with reading_hdf5(self.where, failure=StoreError):
            self._dataset = file.handle[column.path]
            self.digests: NDArray[np.uint8] = file.handle[digests][()]  # one row a leaf
            n_chunks = self._dataset.id.get_num_chunks()
        if column_root(self.digests) != file.header.roots[column.path]:
            raise StoreError(
                f"{file.path}: {digests}: does not match the header; the file is damaged"
            )
        self.n_leaves = column.n_leaves(self.n_rows)
        if n_chunks != self.n_leaves:  # HDF5 would silently give zeros for the others
            raise StoreError(
                f"{self.where}: has {n_chunks} of {self.n_leaves} chunks; the file is damaged"
            )
        self._chunk_bytes = column.chunks(self.n_rows)[0] * column.row_bytes
        self._is_finite = np.zeros(self.n_leaves, dtype=bool)
        self._last: tuple[int, NDArray[Any]] | None = None

    def read_into(self, start: int, stop: int, out: NDArray[Any]) -> None:
        """Read rows ``start`` to ``stop`` into a contiguous array.

        Raises:
            StoreError: values that are not those that were written, or are not finite.
        """
        leaf_rows = self.column.leaf_rows
        if stop - start < _LEAVES_FOR_TWO * leaf_rows:
            self._read_rows(start, stop, out)
            return
        # reading and hashing leave the interpreter free: two threads take half the time
        middle = (start + stop) // 2 // leaf_rows * leaf_rows
        with ThreadPoolExecutor(max_workers=1) as pool:
            second = pool.submit(self._read_rows, middle, stop, out[middle - start :])
            self._read_rows(start, middle, out[: middle - start])
            second.result()

    def _read_rows(self, start: int, stop: int, out: NDArray[Any]) -> None:
        """Read rows into a contiguous array, leaf by leaf."""
        row = start
        while row < stop:
            leaf = row // self.column.leaf_rows
            first, last = self.bounds(leaf)
            end = min(stop, last)
            target = out[row - start : end - start]
            if first == row and last == end:
                self.read_leaf(leaf, target)
            else:
                target[:] = self._recent_leaf(leaf)[row - first : end - first]
            row = end

    def take_into(self, rows: IntArray, out: NDArray[Any]) -> None:
        """Read the given increasing rows into an array; each chunk is read once."""
        leaves = rows // self.column.leaf_rows
        for leaf in np.unique(leaves).tolist():
            places = slice(*np.searchsorted(leaves, [leaf, leaf + 1]))
            out[places] = self._recent_leaf(leaf)[rows[places] - self.bounds(leaf)[0]]

    def bounds(self, leaf: int) -> tuple[int, int]:
        """Return first row and end of a leaf."""
        first = leaf * self.column.leaf_rows
        return first, min(first + self.column.leaf_rows, self.n_rows)

    def read_leaf(self, leaf: int, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Read and check a whole leaf, by default into a new array.

        Raises:
            StoreError: as for ``read_into``.
        """
        first, last = self.bounds(leaf)
        if out is None:
            out = np.empty(self.column.shape(last - first), dtype=self.column.dtype)
        place = out.view(np.uint8).reshape(-1)
        is_whole = len(place) == self._chunk_bytes  # the last chunk may be longer
        buffer = place if is_whole else np.empty(self._chunk_bytes, dtype=np.uint8)
        with reading_hdf5(self.where, failure=StoreError):
            mask, stored = self._dataset.id.read_direct_chunk(
                (first,) if self.column.width is None else (first, 0), out=buffer
            )
        if mask or len(stored) != self._chunk_bytes:
            raise self._damaged(leaf, "has an impossible size")
        if not is_whole:
            place[:] = buffer[: len(place)]
        if leaf_digest(out) != self.digests[leaf].tobytes():
            raise self._damaged(leaf, "does not match its checksum")
        if out.dtype.kind == "f" and not self._is_finite[leaf]:
            if not is_all_finite(out):
                row = self._first_row + first + np.flatnonzero(~np.isfinite(out).all(axis=1))[0]
                raise StoreError(
                    f"{self.where}: row {row} holds NaN or infinity; leave such rows out"
                )
            self._is_finite[leaf] = True
        return out

    def _recent_leaf(self, leaf: int) -> NDArray[Any]:
        """Return a leaf; the last one stays in memory for small reads."""
        if self._last is None or self._last[0] != leaf:
            self._last = (leaf, self.read_leaf(leaf))
        return self._last[1]

    def _damaged(self, leaf: int, problem: str) -> StoreError:
        """Return the error for a leaf."""
        first, last = self.bounds(leaf)
        return StoreError(
            f"{self.where}: the block of rows {first + self._first_row} to "
            f"{last + self._first_row - 1} {problem}; restore the file from a copy or write it "
            "again"
        )


@dataclass(frozen=True)
class StoreInfo:
    """Summary of a store.

    Args:
        path: where it is.
        layout: a packed file or a directory of shards.
        format_version: version of the format.
        n_rows: number of rows.
        views: the representations, sorted by name.
        index_columns: columns of the row index.
        spec: everything that determines the values.
        spec_sha256: sha256 of the canonical JSON of the spec.
        environment: versions and machine class of the run that wrote it.
        licence: note on the terms of use, or None.
        is_complete: whether no shard is missing.
        n_shards: number of files.
        n_bytes: size on disk.
        fingerprint: hash that identifies the content; None where shards are missing.
    """

    path: Path
    layout: Literal["file", "directory"]
    format_version: int
    n_rows: int
    views: tuple[ViewInfo, ...]
    index_columns: tuple[str, ...]
    spec: Mapping[str, Any]
    spec_sha256: str
    environment: Mapping[str, Any]
    licence: str | None
    is_complete: bool
    n_shards: int
    n_bytes: int
    fingerprint: str | None


@checked
def open_store(path: str | Path, *, allow_incomplete: bool = False) -> "Store":
    """Open a store for reading; only its description is read now.

    Args:
        path: a packed file, or a directory of shards.
        allow_incomplete: read the shards present so far of a store that is being written.

    Raises:
        StoreError: damaged, hostile, of another version, or not finished.

    Example:
        >>> import numpy as np, repalign
        >>> info = repalign.write_store("to-open.h5", np.eye(3), spec={"model": "mine"})
        >>> with open_store("to-open.h5") as store:
        ...     dict(store.spec), len(store)
        ({'model': 'mine'}, 3)
    """
    return Store(path, allow_incomplete=allow_incomplete)


class Store(AbstractContextManager["Store"]):
    """Rows of one or several views with their identities, read on demand.

    Every value is checked against its checksum when it is read. Files are opened when they are
    needed. A store can be pickled and used after a fork (files are then opened anew), and read by
    several threads.

    Args:
        path: a packed file, or a directory of shards.
        allow_incomplete: read the shards present so far of a store that is being written.

    Raises:
        StoreError: damaged, hostile, of another version, or not finished.

    Example:
        >>> import numpy as np, repalign
        >>> info = repalign.write_store("two.h5", {"first": np.eye(3), "second": np.ones((3, 2))})
        >>> with repalign.open_store("two.h5") as store:
        ...     len(store), store.view("second").read(0, 1)
        (3, array([[1., 1.]], dtype=float32))
    """

    @checked
    def __init__(self, path: str | Path, *, allow_incomplete: bool = False) -> None:
        self.path = path = Path(path)
        self._allow_incomplete = allow_incomplete
        self._is_directory = path.is_dir()
        self._open: OrderedDict[int, StoreFile] = OrderedDict()
        self._inherited: list[Any] = []
        self._process = os.getpid()
        self._lock = threading.RLock()
        self._is_closed = False
        self.shards: tuple[ShardRecord, ...] = ()
        self._is_complete = True
        content: Header | DirectoryContent
        with reading(path):
            if self._is_directory:
                content = read_directory(path)
                self.shards, self._is_complete = content.shards, content.is_complete
                n_rows = [shard.n_rows for shard in content.shards]
                if not n_rows:
                    raise StoreError(f"{path}: holds no rows yet; continue the run that writes it")
                if not (self._is_complete or allow_incomplete):
                    planned = f" of {content.n_shards}" if content.n_shards else ""
                    raise StoreError(
                        f"{path}: not finished, {len(n_rows)}{planned} shards are there; "
                        "continue the run that writes it, or allow an incomplete store"
                    )
            else:
                self._open[0] = StoreFile(path)
                content = self._open[0].header
                n_rows = [content.n_rows]
        assert content.index is not None, "there is a shard"
        self.description: Description = content.description
        self.index_layout: IndexLayout = content.index
        self.columns: tuple[Column, ...] = columns_of(self.description, self.index_layout)
        self._fingerprint: str | None = content.fingerprint
        self.starts: IntArray = np.cumsum([0, *n_rows])
        self.n_files = len(n_rows)

    def __exit__(self, *failure: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return (partial(Store, allow_incomplete=self._allow_incomplete), (self.path,))

    def __len__(self) -> int:
        return int(self.starts[-1])

    @property
    def views(self) -> Mapping[str, ViewInfo]:
        """The representations, by name."""
        return MappingProxyType({view.name: view for view in self.description.views})

    @property
    def spec(self) -> Mapping[str, Any]:
        """Everything that determines the values."""
        return self.description.spec

    @cached_property
    def index(self) -> RowIndex:
        """The identities of all rows: about 30 bytes a row and the ids.

        Raises:
            StoreError: a damaged file, or identities that no row can have.
        """
        return self.read_index(0, len(self))

    def read_index(self, start: int, stop: int) -> RowIndex:
        """Return the index of rows ``start`` to ``stop`` (exclusive).

        Raises:
            InputError: rows that the store does not have.
            StoreError: a damaged file, or identities that no row can have.
        """
        columns = zip(self.index_layout.columns, self.index_layout.datasets(), strict=True)
        arrays = {name: self.read_column(column, start, stop) for name, column in columns}
        try:
            return RowIndex(**arrays)
        except InputError as error:
            raise StoreError(f"{self.path}: rows {start} to {stop}: {error}") from error

    @property
    def fingerprint(self) -> str:
        """Hash that identifies the content, however it is cut into files."""
        if self._fingerprint is None:
            roots = self.roots(*(column.path for column in self.columns))
            self._fingerprint = fingerprint_of(len(self), self.columns, roots)
        return self._fingerprint

    def roots(self, *paths: str) -> dict[str, str]:
        """Return the hashes of columns, such as ``emb/final`` or ``index/ids``.

        The stored digests are used where the files end with whole leaves; otherwise values are
        read.
        """
        selected = [column for column in self.columns if column.path in paths]
        stored: dict[str, list[Any]] = {c.path: [] for c in selected if self.is_aligned(c)}
        for number in range(self.n_files):  # each is opened once
            for path, leaves in stored.items():
                leaves.extend(self.file(number).column(path).digests)
        for column in selected:
            if column.path not in stored:
                step = column.leaf_rows
                stored[column.path] = [
                    leaf_digest(self.read_column(column, start, min(len(self), start + step)))
                    for start in range(0, len(self), step)
                ]
        return {path: column_root(leaves) for path, leaves in stored.items()}

    @property
    def info(self) -> StoreInfo:
        """Summary of the store."""
        return StoreInfo(
            path=self.path,
            layout="directory" if self._is_directory else "file",
            format_version=FORMAT_VERSION,
            n_rows=len(self),
            views=self.description.views,
            index_columns=self.index_layout.columns,
            spec=self.description.spec,
            spec_sha256=self.description.spec_sha256,
            environment=self.description.environment,
            licence=self.description.licence,
            is_complete=self._is_complete,
            n_shards=self.n_files,
            n_bytes=sum(shard.n_bytes for shard in self.shards) or self.path.stat().st_size,
            fingerprint=self.fingerprint if self._is_complete else None,
        )

    @checked
    def view(self, name: str | None = None) -> "StoreView":
        """Return the rows of a view, by default of the only one.

        Raises:
            InputError: no view of that name, or several and no name.
        """
        names = ", ".join(self.views)
        if name is None and len(self.views) > 1:
            raise InputError(f"{self.path}: has the views {names}; name one of them")
        if name is None:
            name = next(iter(self.views))
        if name not in self.views:
            raise InputError(f"{self.path}: no view {name!r}; it has {names}")
        return StoreView(self, self.views[name])

    def read_column(self, column: Column, start: int, stop: int) -> NDArray[Any]:
        """Return rows ``start`` to ``stop`` of a column.

        Raises:
            InputError: rows that the store does not have.
            StoreError: a damaged file.
        """
        self._check_range(start, stop)
        out = np.empty(column.shape(stop - start), dtype=column.dtype)
        row = start
        while row < stop:
            number = bisect_right(self.starts, row) - 1
            first, last = int(self.starts[number]), int(self.starts[number + 1])
            end = min(stop, last)
            target = out[row - start : end - start]
            with self._locked(), reading(self.path):
                part = self.file(number).column(column.path)
                if part.column.dtype.itemsize > column.dtype.itemsize:
                    raise StoreError(
                        f"{part.where}: identifiers are longer than the store declares; it is "
                        "damaged"
                    )
                if part.column.dtype == column.dtype:
                    part.read_into(row - first, end - first, target)
                else:  # identifiers of a smaller width
                    narrow = np.empty(end - row, dtype=part.column.dtype)
                    part.read_into(row - first, end - first, narrow)
                    target[:] = narrow
            row = end
        return out

    def take_column(self, column: Column, rows: IntArray) -> NDArray[Any]:
        """Return the given rows of a view; they must be strictly increasing.

        Raises:
            InputError: rows out of order, or that the store does not have.
            StoreError: a damaged file.
        """
        try:
            rows = np.asarray(rows)
        except ValueError as failure:  # lists of unequal lengths
            raise InputError(f"{self.path}: rows to take must be integers") from failure
        if rows.ndim != 1 or rows.dtype.kind not in "iu" or np.any(rows[1:] <= rows[:-1]):
            raise InputError(f"{self.path}: rows to take must be strictly increasing integers")
        if len(rows):
            self._check_range(int(rows[0]), int(rows[-1]) + 1)
        rows = rows.astype(np.int64, copy=False)
        out = np.empty(column.shape(len(rows)), dtype=column.dtype)
        cuts = np.searchsorted(rows, self.starts)
        for number in np.flatnonzero(np.diff(cuts)).tolist():
            low, high = cuts[number], cuts[number + 1]
            with self._locked(), reading(self.path):
                part = self.file(number).column(column.path)
                part.take_into(rows[low:high] - self.starts[number], out[low:high])
        return out

    def file(self, number: int) -> StoreFile:
        """Return an open file.

        Raises:
            StoreError: it is damaged or not the one that the store recorded.
        """
        with self._locked():
            if self._is_closed:
                raise StoreError(f"{self.path}: the store was closed; open it again")
            if number not in self._open:
                while len(self._open) >= _MAX_OPEN:
                    self._open.popitem(last=False)[1].handle.close()
                self._open[number] = self._open_file(number)
            self._open.move_to_end(number)
            return self._open[number]

    def is_aligned(self, column: Column) -> bool:
        """Return whether every file but the last ends with a whole leaf of the column."""
        return not (self.starts[:-1] % column.leaf_rows).any()

    def close(self) -> None:
        """Release all files; the store cannot be read any more."""
        with self._locked():
            self._is_closed = True
            while self._open:
                self._open.popitem()[1].handle.close()

    def _locked(self) -> threading.RLock:
        """Return the lock of this process; HDF5 handles do not survive a fork."""
        if os.getpid() != self._process:
            self._inherited.append(self._open)  # never closed: HDF5 is in an unknown state
            self._open = OrderedDict()
            self._lock = threading.RLock()
            self._process = os.getpid()
        return self._lock

    def _open_file(self, number: int) -> StoreFile:
        """Open a file and compare it with what the store recorded."""
        if not self._is_directory:
            file = StoreFile(self.path)
            if file.header.fingerprint != self._fingerprint:
                file.handle.close()
                raise StoreError(f"{self.path}: was replaced while it was open; open it again")
            return file
        record = self.shards[number]
        path = self.path / shard_name(number)
        n_bytes = file_size(path, follow_links=False)
        if n_bytes != record.n_bytes:
            raise StoreError(
                f"{path}: has {n_bytes} bytes, the manifest says {record.n_bytes}; it is damaged: "
                "restore it from a copy or write it again"
            )
        file = StoreFile(path, shard=number, first_row=int(self.starts[number]))
        header, description = file.header, file.header.description
        values = {
            "number of rows": (header.n_rows, record.n_rows),
            "fingerprint": (header.fingerprint, record.content_sha256),
            "spec": (description.spec_sha256, self.description.spec_sha256),
            "list of views": (description.views, self.description.views),
        }
        for name, (value, recorded) in values.items():
            if value != recorded:
                file.handle.close()
                raise StoreError(f"{path}: its {name} is not the recorded one; it is damaged")
        return file

    def _check_range(self, start: int, stop: int) -> None:
        """Refuse rows that do not exist; a slice of numpy would be shorter."""
        n_rows = int(self.starts[-1])
        check_kind("start", start, int)
        check_kind("stop", stop, int)
        if not 0 <= start <= stop <= n_rows:
            raise InputError(f"{self.path}: got rows {start} to {stop}, it has {n_rows} rows")


class StoreView:
    """Rows of one view; satisfies :class:`repalign.aliases.Rows`."""

    def __init__(self, store: Store, info: ViewInfo) -> None:
        self._store = store
        self._column = info.column
        self.info = info

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and number of columns."""
        return len(self._store), self.info.dim

    @property
    def dtype(self) -> np.dtype[Any]:
        """Floating type in which the values are stored."""
        return self._column.dtype

    def read(self, start: int, stop: int) -> FloatArray:
        """Return rows ``start`` to ``stop`` (exclusive) as a new array."""
        return self._store.read_column(self._column, start, stop)

    def take(self, rows: IntArray) -> FloatArray:
        """Return the given rows; they are strictly increasing."""
        return self._store.take_column(self._column, rows)


@dataclass(frozen=True)
class VerifyResult:
    """Outcome of a verification.

    Args:
        path: the store.
        mode: quick (structure, sizes, headers) or full (every byte as well).
        n_rows: number of rows that the store declares; 0 if it could not be opened.
        n_files: number of files looked at.
        problems: one line per damaged file; empty for a sound store.
    """

    path: Path
    mode: VerifyMode
    n_rows: int
    n_files: int
    problems: tuple[str, ...]

    @property
    def is_sound(self) -> bool:
        """Whether there are no problems."""
        return not self.problems


@checked
def verify_store(
    path: str | Path,
    *,
    mode: VerifyMode = "full",
    allow_incomplete: bool = False,
    on_progress: Callable[[int, int], None] | None = None,
) -> VerifyResult:
    """Check every file of a store; damage is reported, not raised.

    Args:
        path: a packed file or a directory of shards.
        mode: ``quick`` checks structure, sizes, chunk places and headers; ``full`` also every
            value against its digest.
        allow_incomplete: accept a store that is still being written.
        on_progress: called with the files done and their total.

    Raises:
        InputError: another mode.

    Example:
        >>> import numpy as np, repalign
        >>> info = repalign.write_store("to-verify.h5", np.eye(3))
        >>> verify_store("to-verify.h5").is_sound
        True
    """
    path = Path(path)
    try:
        store = Store(path, allow_incomplete=allow_incomplete)
    except StoreError as error:
        return VerifyResult(path, mode, 0, 0, (str(error),))
    problems = []
    with store:
        for number in range(store.n_files):
            try:
                check_file(store, number, mode)
            except StoreError as error:
                problems.append(str(error))
            if on_progress:
                on_progress(number + 1, store.n_files)
    return VerifyResult(path, mode, len(store), store.n_files, tuple(problems))


def check_file(store: Store, number: int, mode: VerifyMode) -> None:
    """Check one file of a store.

    Raises:
        StoreError: what is wrong with it.
    """
    file = store.file(number)
    for column in file.header.columns:
        reader = file.column(column.path)
        if mode == "full":
            for leaf in range(reader.n_leaves):
                reader.read_leaf(leaf)
    if mode == "full":  # identities that no row can have are refused when they are read
        start, stop = (int(row) for row in store.starts[number : number + 2])
        for at in range(start, stop, _INDEX_BLOCK):
            store.read_index(at, min(stop, at + _INDEX_BLOCK))
