"""One file of a store, every value checked against its digest.

HDF5 finds the chunks and hands over their bytes (``read_direct_chunk``), straight into the array
that is returned: half again as fast as reading through its chunk cache.
"""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repalign.aliases import IntArray
from repalign.exceptions import StoreError
from repalign.store.format.digests import column_root, leaf_digest
from repalign.store.format.hdf5 import reading_hdf5
from repalign.store.format.header import Header
from repalign.store.format.schema import DIGEST_BYTES, DIGESTS, Column
from repalign.store.reading.safety import open_checked
from repalign.store.rows.floats import is_all_finite

_MAX_OPEN = 16
_LEAVES_FOR_TWO = 8


class ColumnReader:
    """Verified rows of one dataset of one open file.

    Args:
        file: open HDF5 file that passed :func:`repalign.store.reading.safety.open_checked`.
        column: the dataset.
        header: header of the file.
        path: name of the file, for messages.
        first_row: number of the first row in the store, for messages.
    """

    def __init__(
        self, file: Any, column: Column, header: Header, *, path: str, first_row: int
    ) -> None:
        self.column = column
        self.where = f"{path}: {column.path}"
        self.n_rows = header.n_rows
        self._first_row = first_row
        with reading_hdf5(self.where, failure=StoreError):
            self._dataset = file[column.path]
            self._digests: bytes = file[f"{DIGESTS}/{column.path}"][()].tobytes()
            n_chunks = self._dataset.id.get_num_chunks()
        if column_root([self._digests]) != header.roots[column.path]:
            raise StoreError(
                f"{path}: {DIGESTS}/{column.path}: does not match the header; the file is damaged"
            )
        self._n_leaves = column.n_leaves(self.n_rows)
        if n_chunks != self._n_leaves:  # HDF5 would silently give zeros for the others
            raise StoreError(
                f"{self.where}: has {n_chunks} of {self._n_leaves} chunks; the file is damaged"
            )
        self._chunk_bytes = column.chunks(self.n_rows)[0] * column.row_bytes
        self._is_finite = np.zeros(self._n_leaves, dtype=bool)
        self._last: tuple[int, NDArray[Any]] | None = None

    def digests(self) -> list[bytes]:
        """Return the stored digests of all leaves."""
        return [self._digest(leaf) for leaf in range(self._n_leaves)]

    def _digest(self, leaf: int) -> bytes:
        return self._digests[leaf * DIGEST_BYTES : (leaf + 1) * DIGEST_BYTES]

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
                self._read_leaf(leaf, target)
            else:
                target[:] = self._whole_leaf(leaf)[row - first : end - first]
            row = end

    def take_into(self, rows: IntArray, out: NDArray[Any]) -> None:
        """Read the given increasing rows into an array; each chunk is read once."""
        leaves = rows // self.column.leaf_rows
        for leaf in np.unique(leaves).tolist():
            places = slice(*np.searchsorted(leaves, [leaf, leaf + 1]))
            out[places] = self._whole_leaf(leaf)[rows[places] - self.bounds(leaf)[0]]

    def check_all(self) -> None:
        """Read every leaf.

        Raises:
            StoreError: anything is damaged.
        """
        for leaf in range(self._n_leaves):
            self._read_leaf(leaf, self._empty_leaf(leaf))

    def bounds(self, leaf: int) -> tuple[int, int]:
        """Return first row and end of a leaf."""
        first = leaf * self.column.leaf_rows
        return first, min(first + self.column.leaf_rows, self.n_rows)

    def _read_leaf(self, leaf: int, out: NDArray[Any]) -> None:
        """Read a whole leaf into a contiguous array and check it; the last chunk may be longer.

        Raises:
            StoreError: as for ``read_into``.
        """
        place = out.view(np.uint8).reshape(-1)
        is_whole = len(place) == self._chunk_bytes
        buffer = place if is_whole else np.empty(self._chunk_bytes, dtype=np.uint8)
        at = leaf * self.column.leaf_rows
        with reading_hdf5(self.where, failure=StoreError):
            mask, stored = self._dataset.id.read_direct_chunk(
                (at,) if self.column.width is None else (at, 0), out=buffer
            )
        if mask or len(stored) != self._chunk_bytes:
            raise self._damaged(leaf, "has an impossible size")
        if not is_whole:
            place[:] = buffer[: len(place)]
        if leaf_digest(out) != self._digest(leaf):
            raise self._damaged(leaf, "does not match its checksum")
        if self.column.is_view and not self._is_finite[leaf]:
            self._check_finite(leaf, out)

    def _check_finite(self, leaf: int, values: NDArray[Any]) -> None:
        if not is_all_finite(values):
            bad = int(np.flatnonzero(~np.isfinite(values).all(axis=1))[0])
            row = self._first_row + self.bounds(leaf)[0] + bad
            raise StoreError(f"{self.where}: row {row} holds NaN or infinity; leave such rows out")
        self._is_finite[leaf] = True

    def _empty_leaf(self, leaf: int) -> NDArray[Any]:
        first, last = self.bounds(leaf)
        return np.empty(self.column.shape(last - first), dtype=self.column.dtype)

    def _whole_leaf(self, leaf: int) -> NDArray[Any]:
        """Return a leaf; the last one is kept for reads of a few rows at a time."""
        if self._last is None or self._last[0] != leaf:
            values = self._empty_leaf(leaf)
            self._read_leaf(leaf, values)
            self._last = (leaf, values)
        return self._last[1]

    def _damaged(self, leaf: int, problem: str) -> StoreError:
        """Return the error for a leaf."""
        first, last = self.bounds(leaf)
        return StoreError(
            f"{self.where}: the block of rows {first + self._first_row} to "
            f"{last + self._first_row - 1} {problem}; restore the file from a copy or write it "
            "again"
        )


class StoreFile:
    """A checked file whose columns are opened at their first use.

    Args:
        path: the file.
        first_row: number of its first row in the store.
    """

    def __init__(self, path: Path, *, first_row: int = 0) -> None:
        self.path = path
        self.first_row = first_row
        self._file, self.header = open_checked(path)
        self._columns: dict[str, ColumnReader] = {}

    def column(self, path: str) -> ColumnReader:
        """Return the reader of a column."""
        if path not in self._columns:
            column = next(column for column in self.header.columns if column.path == path)
            self._columns[path] = ColumnReader(
                self._file, column, self.header, path=str(self.path), first_row=self.first_row
            )
        return self._columns[path]

    def close(self) -> None:
        """Release the file."""
        self._columns.clear()
        self._file.close()
