"""Reading rows of one dataset with every value checked against its digest.

Chunks are read from the file directly (their place is known from the checked chunk map), into
the array that is returned: this is several times faster than HDF5 with its own checksum, and no
filter code of HDF5 runs on the bytes of a gzip chunk.
"""

import os
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repalign.aliases import IntArray
from repalign.exceptions import StoreError
from repalign.store.format.digests import column_root, leaf_digest
from repalign.store.format.header import Header
from repalign.store.format.schema import DIGEST_BYTES, DIGESTS, Column
from repalign.store.reading.chunk_map import ChunkMap, read_chunk_map
from repalign.store.reading.safety import told_as_store_error
from repalign.store.rows.finiteness import is_all_finite
from repalign.store.writing.file import import_blosc

_LEAVES_FOR_TWO = 8


class ColumnReader:
    """Verified rows of one dataset of one open file.

    Args:
        file: open HDF5 file that passed :func:`repalign.store.reading.safety.open_checked`.
        handle: file descriptor of the same file.
        column: the dataset.
        header: header of the file.
        path: name of the file, for messages.
        first_row: number of the first row in the store, for messages.
    """

    def __init__(
        self, file: Any, handle: int, column: Column, header: Header, *, path: str, first_row: int
    ) -> None:
        self.column = column
        self.where = f"{path}: {column.path}"
        self.n_rows = header.n_rows
        self._first_row = first_row
        self._handle = handle
        with told_as_store_error(self.where):
            self._dataset = file[column.path]
            self._digests: bytes = file[f"{DIGESTS}/{column.path}"][()].tobytes()
        if column_root([self._digests]) != header.roots[column.path]:
            raise StoreError(
                f"{path}: {DIGESTS}/{column.path}: does not match the header; the file is damaged"
            )
        self.chunks: ChunkMap = read_chunk_map(
            self._dataset, column, os.fstat(handle).st_size, self.where
        )
        if column.compression == "blosc2":
            import_blosc()
        self._is_finite = np.zeros(len(self.chunks.offset), dtype=bool)
        self._last: tuple[int, NDArray[Any]] | None = None

    def digests(self) -> list[bytes]:
        """Return the stored digests of all leaves."""
        ends = range(DIGEST_BYTES, len(self._digests) + 1, DIGEST_BYTES)
        return [self._digests[end - DIGEST_BYTES : end] for end in ends]

    def digest(self, leaf: int) -> bytes:
        """Return the stored digest of a leaf."""
        return self._digests[leaf * DIGEST_BYTES : (leaf + 1) * DIGEST_BYTES]

    def read_into(self, start: int, stop: int, out: NDArray[Any]) -> None:
        """Read rows ``start`` to ``stop`` into a contiguous array.

        Raises:
            StoreError: values that are not those that were written, or are not finite.
        """
        middle = self._middle(start, stop)
        if middle is None:
            self._read_rows(start, stop, out)
            return
        # reading, hashing and expanding leave the interpreter free: two threads take half the time
        with ThreadPoolExecutor(max_workers=1) as pool:
            second = pool.submit(self._read_rows, middle, stop, out[middle - start :])
            self._read_rows(start, middle, out[: middle - start])
            second.result()

    def _middle(self, start: int, stop: int) -> int | None:
        """Return the start of a leaf that halves many leaves; None for few."""
        if stop - start < _LEAVES_FOR_TWO * self.column.leaf_rows:
            return None
        return (start + stop) // 2 // self.column.leaf_rows * self.column.leaf_rows

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
        for leaf in np.unique(leaves):
            chosen = _run_of(leaves, leaf)
            first, _ = self.bounds(int(leaf))
            out[chosen] = self._whole_leaf(int(leaf))[rows[chosen] - first]

    def check_all(self) -> None:
        """Read every leaf.

        Raises:
            StoreError: anything is damaged.
        """
        for leaf in range(len(self.chunks.offset)):
            first, last = self.bounds(leaf)
            values = np.empty(self.column.shape(last - first), dtype=self.column.dtype)
            self._read_leaf(leaf, values)

    def bounds(self, leaf: int) -> tuple[int, int]:
        """Return first row and end of a leaf."""
        first = leaf * self.column.leaf_rows
        return first, min(first + self.column.leaf_rows, self.n_rows)

    def read_stored(self, leaf: int) -> bytes:
        """Return a chunk as it is stored, filters applied."""
        size = int(self.chunks.stored[leaf])
        with told_as_store_error(self.where):
            stored = os.pread(self._handle, size, int(self.chunks.offset[leaf]))
        if len(stored) != size:
            raise self._damaged(leaf, "is cut off")
        return stored

    def check(self, leaf: int, values: NDArray[Any]) -> None:
        """Check the values of a leaf.

        Raises:
            StoreError: they do not match their digest, or are not finite.
        """
        if leaf_digest(values) != self.digest(leaf):
            raise self._damaged(leaf, "does not match its checksum")
        if self.column.is_view and not self._is_finite[leaf]:
            if not is_all_finite(values):
                bad = int(np.flatnonzero(~np.isfinite(values).all(axis=1))[0])
                row = self._first_row + self.bounds(leaf)[0] + bad
                raise StoreError(
                    f"{self.where}: row {row} holds NaN or infinity; leave such rows out"
                )
            self._is_finite[leaf] = True

    def _whole_leaf(self, leaf: int) -> NDArray[Any]:
        """Return a leaf; the last one is kept for reads of a few rows at a time."""
        if self._last is not None and self._last[0] == leaf:
            return self._last[1]
        first, last = self.bounds(leaf)
        values = np.empty(self.column.shape(last - first), dtype=self.column.dtype)
        self._read_leaf(leaf, values)
        self._last = (leaf, values)
        return values

    def _read_leaf(self, leaf: int, out: NDArray[Any]) -> None:
        """Read and check a whole leaf."""
        if self.column.compression is None:
            self._read_plain(leaf, out)
        elif self.column.compression == "gzip":
            self._read_gzip(leaf, out)
        else:
            first, last = self.bounds(leaf)
            with told_as_store_error(self.where):
                self._dataset.read_direct(out, source_sel=np.s_[first:last])
        self.check(leaf, out)

    def _read_plain(self, leaf: int, out: NDArray[Any]) -> None:
        """Read an uncompressed leaf straight into its place."""
        view = out.view(np.uint8).reshape(-1).data
        with told_as_store_error(self.where):
            count = os.preadv(self._handle, [view], int(self.chunks.offset[leaf]))
        if count != out.nbytes:
            raise self._damaged(leaf, "is cut off")

    def _read_gzip(self, leaf: int, out: NDArray[Any]) -> None:
        """Expand a leaf, never beyond the size of a chunk, and undo the byte shuffle."""
        width, itemsize = self.column.width or 1, self.column.dtype.itemsize
        chunk_rows = min(self.column.leaf_rows, self.n_rows)
        size = chunk_rows * width * itemsize
        packed = self.read_stored(leaf)
        if self.chunks.compressed[leaf]:
            try:
                packed = zlib.decompressobj().decompress(packed, size)
            except zlib.error as error:
                raise self._damaged(leaf, "cannot be expanded") from error
        if len(packed) != size:
            raise self._damaged(leaf, "has an impossible size")
        planes = np.frombuffer(packed, dtype=np.uint8).reshape(itemsize, chunk_rows * width)
        out.view(np.uint8).reshape(-1, itemsize)[:] = planes[:, : out.size].T

    def _damaged(self, leaf: int, what: str) -> StoreError:
        """Return the error for a leaf."""
        first, last = self.bounds(leaf)
        first, last = first + self._first_row, last + self._first_row
        return StoreError(
            f"{self.where}: the block of rows {first} to {last - 1} {what}; restore the file from "
            "a copy or write it again"
        )


def _run_of(leaves: IntArray, leaf: Any) -> IntArray:
    """Return the positions of one value in a sorted array."""
    return np.arange(np.searchsorted(leaves, leaf), np.searchsorted(leaves, leaf, side="right"))
