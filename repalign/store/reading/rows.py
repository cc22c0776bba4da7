"""The rows of a store as one sequence, whatever number of files they lie in."""

import os
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repalign.aliases import IntArray
from repalign.arguments import check_kind
from repalign.exceptions import InputError, StoreError, reading
from repalign.store.format.digests import column_root, leaf_digest
from repalign.store.format.header import Header
from repalign.store.format.layout import Description
from repalign.store.format.schema import Column
from repalign.store.format.shard import ShardRecord, check_shard
from repalign.store.reading.file import StoreFile

_MAX_OPEN = 16


class StoredRows:
    """Files of one store, opened when they are needed and again in a forked process.

    Args:
        path: the packed file, or the directory.
        declared: header of the packed file, or description that all shards must share.
        shards: records of the shards; empty for a packed file.
    """

    def __init__(
        self,
        path: Path,
        declared: Header | Description,
        shards: Sequence[ShardRecord] = (),
    ) -> None:
        self.path = path
        self._declared = declared
        self.shards = tuple(shards)
        counts = [declared.n_rows] if isinstance(declared, Header) else [s.n_rows for s in shards]
        self.starts: IntArray = np.cumsum([0, *counts])
        self._open: OrderedDict[int, StoreFile] = OrderedDict()
        self._inherited: list[Any] = []
        self._process = os.getpid()
        self._lock = threading.RLock()
        self._is_closed = False

    @property
    def n_files(self) -> int:
        """Number of files."""
        return len(self.starts) - 1

    def read(self, column: Column, start: int, stop: int) -> NDArray[Any]:
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
                if part.column.dtype == column.dtype:
                    part.read_into(row - first, end - first, target)
                elif part.column.dtype.itemsize > column.dtype.itemsize:
                    raise StoreError(
                        f"{part.where}: identifiers are longer than the store declares; it is "
                        "damaged"
                    )
                else:  # identifiers of a smaller width
                    narrow = np.empty(end - row, dtype=part.column.dtype)
                    part.read_into(row - first, end - first, narrow)
                    target[:] = narrow
            row = end
        return out

    def take(self, column: Column, rows: IntArray) -> NDArray[Any]:
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

    def files(self) -> Iterator[StoreFile]:
        """Open the files one after the other, in row order."""
        for number in range(self.n_files):
            yield self.file(number)

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
                    self._open.popitem(last=False)[1].close()
                self._open[number] = self._opened(number)
            self._open.move_to_end(number)
            return self._open[number]

    def is_aligned(self, column: Column) -> bool:
        """Tell whether every file but the last ends with a whole leaf of the column."""
        return not (self.starts[:-1] % column.leaf_rows).any()

    def roots(self, columns: Sequence[Column]) -> dict[str, str]:
        """Return the roots of columns of all files together, by path.

        The stored digests are used where the files end with whole leaves; otherwise values are
        read.
        """
        stored: dict[str, list[bytes]] = {c.path: [] for c in columns if self.is_aligned(c)}
        for file in self.files():  # each is opened once
            for path, leaves in stored.items():
                leaves += file.column(path).digests()
        return {
            column.path: column_root(
                stored[column.path] if column.path in stored else self._computed_leaves(column)
            )
            for column in columns
        }

    def _computed_leaves(self, column: Column) -> Iterator[bytes]:
        """Return the leaf digests of a column from its values."""
        n_rows = int(self.starts[-1])
        for start in range(0, n_rows, column.leaf_rows):
            yield leaf_digest(self.read(column, start, min(n_rows, start + column.leaf_rows)))

    def close(self) -> None:
        """Release all files; rows cannot be read any more."""
        with self._locked():
            self._is_closed = True
            while self._open:
                self._open.popitem()[1].close()

    def _locked(self) -> threading.RLock:
        """Return the lock of this process; HDF5 handles do not survive a fork."""
        if os.getpid() != self._process:
            self._inherited.append(self._open)  # never closed: HDF5 is in an unknown state
            self._open = OrderedDict()
            self._lock = threading.RLock()
            self._process = os.getpid()
        return self._lock

    def _opened(self, number: int) -> StoreFile:
        """Open a file and compare it with what the store recorded."""
        if isinstance(self._declared, Header):
            file = StoreFile(self.path)
            if file.header.fingerprint != self._declared.fingerprint:
                file.close()
                raise StoreError(f"{self.path}: was replaced while it was open; open it again")
            return file
        record = self.shards[number]
        path = check_shard(self.path, record)
        file = StoreFile(path, first_row=int(self.starts[number]))
        differing = _differing(file.header, record, self._declared)
        if differing:
            file.close()
            raise StoreError(f"{path}: its {differing} is not the recorded one; it is damaged")
        return file

    def _check_range(self, start: int, stop: int) -> None:
        """Refuse rows that are not there; a slice of numpy would silently be shorter."""
        n_rows = int(self.starts[-1])
        check_kind("start", start, int)
        check_kind("stop", stop, int)
        if not 0 <= start <= stop <= n_rows:
            raise InputError(f"{self.path}: rows {start} to {stop} asked for, it has {n_rows} rows")


def _differing(header: Header, record: ShardRecord, description: Description) -> str | None:
    """Return what distinguishes a shard from its record, or None."""
    own = header.description
    pairs = {
        "number": (header.shard, record.number),
        "number of rows": (header.n_rows, record.n_rows),
        "fingerprint": (header.fingerprint, record.content_sha256),
        "spec": (own.spec_sha256, description.spec_sha256),
        "list of views": (own.views, description.views),
    }
    return next((name for name, (got, expected) in pairs.items() if got != expected), None)
