"""Rows of another source in a chosen order, read in blocks with bounded memory."""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from repalign.aliases import FloatArray, IntArray, Rows
from repalign.store.rows.files import RowSpool

Access = Literal["in order", "gathered", "reordered copy"]

# One block of a consumer, and how much more than the rows it needs it may read: beyond that a
# copy in the wanted order is cheaper, since every estimate reads all rows at least once.
TYPICAL_BLOCK_ROWS = 8192
MAX_READ_RATIO = 3.0
COPY_BLOCK_BYTES = 32 * 2**20


class GatheredRows:
    """Rows ``positions`` of ``rows``, in that order: row i here is row ``positions[i]`` there.

    A block is read in the order of the other source and put right in memory, so that no more
    than one block is held.
    """

    def __init__(self, rows: Rows, positions: IntArray) -> None:
        self._rows = rows
        self._positions = positions
        self.shape: tuple[int, int] = (len(positions), rows.shape[1])
        self.dtype: np.dtype[Any] = rows.dtype

    def read(self, start: int, stop: int) -> FloatArray:
        """Return rows ``start`` to ``stop`` (exclusive) as a new array."""
        return self._gather(self._positions[start:stop])

    def take(self, rows: IntArray) -> FloatArray:
        """Return the given rows; they are strictly increasing."""
        return self._gather(self._positions[rows])

    def _gather(self, positions: IntArray) -> FloatArray:
        if len(positions) and is_consecutive(positions):
            return self._rows.read(int(positions[0]), int(positions[-1]) + 1)
        if is_increasing(positions):
            return self._rows.take(positions)
        order = np.argsort(positions)
        in_order = self._rows.take(positions[order])
        values = np.empty_like(in_order)
        values[order] = in_order
        return values


class ReorderedRows:
    """``GatheredRows`` that copies itself once, on the first read, to a temporary file.

    Worth it where rows that are wanted together lie far apart in a source that can only be read
    in chunks. The copy is made in one pass over the source with bounded memory.
    """

    def __init__(self, rows: Rows, positions: IntArray, *, label: str) -> None:
        self._rows = rows
        self._positions = positions
        self._label = label
        self._copy: Rows | None = None
        self.shape: tuple[int, int] = (len(positions), rows.shape[1])
        self.dtype: np.dtype[Any] = rows.dtype

    def read(self, start: int, stop: int) -> FloatArray:
        """Return rows ``start`` to ``stop`` (exclusive) as a new array."""
        return self._reordered().read(start, stop)

    def take(self, rows: IntArray) -> FloatArray:
        """Return the given rows; they are strictly increasing."""
        return self._reordered().take(rows)

    def _reordered(self) -> Rows:
        if self._copy is None:
            self._copy = copy_in_order(self._rows, self._positions, label=self._label)
        return self._copy


def is_consecutive(positions: IntArray) -> bool:
    """Return whether every position is one more than the one before."""
    return bool((np.diff(positions) == 1).all())


def is_increasing(positions: IntArray) -> bool:
    """Return whether every position is greater than the one before."""
    return bool((np.diff(positions) > 0).all())


def is_in_place(positions: IntArray, n_rows: int) -> bool:
    """Return whether the positions are all ``n_rows`` rows in their own order."""
    return len(positions) == n_rows and is_consecutive(positions)


def read_ratio(positions: IntArray, chunk_rows: int) -> float:
    """Return how many rows are read per row wanted, if each block reads whole chunks once."""
    if not len(positions):
        return 1.0
    blocks = np.arange(len(positions)) // TYPICAL_BLOCK_ROWS
    chunks = positions // chunk_rows
    touched = len(np.unique(blocks * (int(chunks.max()) + 1) + chunks))
    return touched * chunk_rows / len(positions)


def arrange_rows(
    rows: Rows, positions: IntArray, *, chunk_rows: int, label: str
) -> tuple[Rows, Access]:
    """Return the rows at ``positions`` in that order, and how they are read.

    Args:
        rows: the source.
        positions: rows of it, each at most once.
        chunk_rows: rows that the source always reads together; 1 where any row can be read alone.
        label: name of the source, for messages.
    """
    if is_in_place(positions, rows.shape[0]):
        return rows, "in order"
    if is_increasing(positions):
        return GatheredRows(rows, positions), "in order"
    if read_ratio(positions, chunk_rows) <= MAX_READ_RATIO:
        return GatheredRows(rows, positions), "gathered"
    return ReorderedRows(rows, positions, label=label), "reordered copy"


def copy_in_order(
    rows: Rows, positions: IntArray, *, label: str, block_bytes: int = COPY_BLOCK_BYTES
) -> Rows:
    """Copy the rows at ``positions``, in that order, to a temporary file.

    The source is read once from front to back. Each block is sorted by where its rows go, so
    that neighbours are written together.
    """
    n_rows, n_columns = len(positions), rows.shape[1]
    order = np.argsort(
        positions
    )  # destination of the increasing rows, by their place in the source
    increasing = positions[order]
    block_rows = max(1, block_bytes // max(n_columns * rows.dtype.itemsize, 1))
    with RowSpool((n_rows, n_columns), rows.dtype, label=label) as spool:
        for start in range(0, n_rows, block_rows):
            sources = increasing[start : start + block_rows]
            targets = order[start : start + block_rows]
            values = GatheredRows(rows, sources).read(0, len(sources))
            by_target = np.argsort(targets)
            write_runs(spool, targets[by_target], values[by_target])
        return spool.finish(n_rows)


def write_runs(spool: RowSpool, targets: IntArray, values: NDArray[Any]) -> None:
    """Write rows to increasing places, neighbours in one go."""
    edges = np.flatnonzero(np.diff(targets) != 1) + 1
    for first, last in zip([0, *edges.tolist()], [*edges.tolist(), len(targets)], strict=True):
        spool.write(int(targets[first]), values[first:last])
