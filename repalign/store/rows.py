"""Rows outside of stores: as native floats, mapped, copied, in another order."""

import shutil
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from repalign.aliases import FloatArray, IntArray, Rows
from repalign.exceptions import InputError, StoreError, reading
from repalign.printable import byte_size
from repalign.rows import ArrayRows

EXACT_INTEGER = 2**53  # largest range in which every integer is a float64
_MARGIN = 1.05

Access = Literal["in order", "gathered", "reordered copy"]

# One block of a consumer, and how much more than the rows it needs it may read: beyond that a
# copy in the wanted order is cheaper, since every estimate reads all rows at least once.
TYPICAL_BLOCK_ROWS = 8192
MAX_READ_RATIO = 3.0
COPY_BLOCK_BYTES = 32 * 2**20


class FloatRows:
    """Foreign rows as ``Rows``: native floats, every value finite.

    Floats keep their precision, integers of up to 16 bits and booleans become float32, longer
    integers float64, bfloat16 becomes float32: none of these changes a value.

    Args:
        raw: the rows as they are kept in the file.
        label: name of file and array, for messages.
        bfloat16: the 16-bit words of ``raw`` are bfloat16 values.

    Raises:
        InputError: the type of ``raw`` is not a type of numbers that repalign reads.
    """

    def __init__(self, raw: Rows, *, label: str, bfloat16: bool = False) -> None:
        self._raw = raw
        self._label = label
        self.shape = raw.shape
        self.dtype = np.dtype(np.float32) if bfloat16 else float_type(raw.dtype, label=label)
        self._bfloat16 = bfloat16

    def read(self, start: int, stop: int) -> FloatArray:
        """Return rows ``start`` to ``stop`` (exclusive) as a new array.

        Raises:
            InputError: a value is NaN or infinite, or an integer that no float64 can hold.
        """
        start, stop, _ = slice(start, stop).indices(self.shape[0])
        with reading(self._label):
            values = self._convert(self._raw.read(start, stop))
        self._check_finite(values, lambda row: start + row)
        return values

    def take(self, rows: IntArray) -> FloatArray:
        """Return the given rows; they are strictly increasing.

        Raises:
            InputError: as for ``read``.
        """
        with reading(self._label):
            values = self._convert(self._raw.take(rows))
        self._check_finite(values, lambda row: int(rows[row]))
        return values

    def _convert(self, values: NDArray[Any]) -> FloatArray:
        if self._bfloat16:  # the upper half of the bits of a float32
            return (values.astype(np.uint32) << np.uint32(16)).view(np.float32)
        if values.dtype.kind in "iu" and values.dtype.itemsize == 8 and values.size:
            largest = max(abs(int(values.min())), abs(int(values.max())))
            if largest > EXACT_INTEGER:
                raise InputError(
                    f"{self._label}: holds the integer {largest}, which no float64 represents; "
                    "convert the array to floats yourself"
                )
        return values.astype(self.dtype, copy=False)

    def _check_finite(self, values: FloatArray, row_of: Callable[[int], int]) -> None:
        if not is_all_finite(values):
            bad = np.argwhere(~np.isfinite(values))
            row, column = map(int, bad[0])
            raise InputError(
                f"{self._label}: row {row_of(row)} holds {values[row, column]} in column {column} "
                f"(rows like that in this block: {len(np.unique(bad[:, 0]))}); remove or repair "
                "them"
            )


def float_type(dtype: np.dtype[Any], *, label: str) -> np.dtype[Any]:
    """Return the native float type that holds every value of ``dtype``.

    Raises:
        InputError: text, Python objects, complex numbers, records, dates or extended floats.
    """
    if dtype.kind == "f" and dtype.itemsize <= 8:
        return dtype.newbyteorder("=")
    if dtype.kind in "iub":
        return np.dtype(np.float32 if dtype.itemsize <= 2 else np.float64)
    if dtype.kind == "O":
        raise InputError(
            f"{label}: holds Python objects, which are never loaded because they can run code; "
            "save it as an array of floats"
        )
    raise InputError(
        f"{label}: has values of type {dtype}; expected real numbers (float16 to float64, "
        "integers, booleans)"
    )


def unmasked(values: Any, *, label: str) -> Any:
    """Return values as an array; masked values, which it would show, are refused.

    Raises:
        InputError: a value is masked.
    """
    if isinstance(values, list | tuple) and any(isinstance(v, np.ma.MaskedArray) for v in values):
        values = np.ma.array(values)
    array = np.asarray(values)
    if isinstance(values, np.ma.MaskedArray):
        hidden = np.argwhere(np.ma.getmaskarray(values))
        if len(hidden):
            raise InputError(
                f"{label}: row {hidden[0][0] if array.ndim else 0} has a masked value "
                f"({len(hidden)} in all); fill them or leave such rows out"
            )
    return array


def is_all_finite(values: NDArray[Any]) -> bool:
    """Return whether all values are finite, at memory speed in the usual case."""
    if values.dtype.itemsize >= 4:
        flat = values.reshape(-1)
        with np.errstate(all="ignore"):
            # NaN and infinity survive a sum of squares; so does an overflow, which is looked at
            if np.isfinite(np.dot(flat, flat)):
                return True
    return bool(np.isfinite(values).all())


class RowSpool:
    """Rows written to an unnamed temporary file, which vanishes with its last reader.

    The file lies in the directory of temporary files (``TMPDIR``).

    Args:
        shape: number of rows and columns; the rows are written in any order.
        dtype: type of the values.
        label: what is copied, for messages.

    Raises:
        InputError: the disk has too little room.
    """

    def __init__(self, shape: tuple[int, int], dtype: np.dtype[Any], *, label: str) -> None:
        self._n_columns = shape[1]
        self._dtype = dtype
        self._row_bytes = shape[1] * dtype.itemsize
        check_temporary_space(shape[0] * self._row_bytes, label=label)
        self._file = tempfile.TemporaryFile(prefix="repalign-")  # noqa: SIM115

    def write(self, first_row: int, values: NDArray[Any]) -> None:
        """Write consecutive rows from ``first_row`` on."""
        self._file.seek(first_row * self._row_bytes)
        self._file.write(np.ascontiguousarray(values, dtype=self._dtype).data)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self._file.close()

    def finish(self, n_rows: int) -> ArrayRows:
        """Return the first ``n_rows`` rows for reading; they outlive the spool."""
        self._file.flush()
        self._file.truncate(n_rows * self._row_bytes)
        shape = (n_rows, self._n_columns)
        if not n_rows:
            return ArrayRows(np.empty(shape, dtype=self._dtype))
        return ArrayRows(np.memmap(self._file, dtype=self._dtype, mode="r", shape=shape))


def spool_blocks(
    blocks: Iterable[NDArray[Any]], *, n_rows: int, n_columns: int, dtype: np.dtype[Any], label: str
) -> ArrayRows:
    """Copy consecutive blocks of rows to a temporary file and return it for reading.

    ``n_rows`` is an upper bound where the number is not known beforehand.
    """
    n_written = 0
    with RowSpool((n_rows, n_columns), dtype, label=label) as spool:
        for block in blocks:
            spool.write(n_written, block)
            n_written += len(block)
        return spool.finish(n_written)


def check_space(path: Path, n_bytes: int) -> None:
    """Check that a disk has room for a file.

    Raises:
        StoreError: less than ``n_bytes`` and five per cent are free where ``path`` will lie.
    """
    existing = path.absolute()
    while not existing.exists():
        existing = existing.parent
    free = shutil.disk_usage(existing).free
    needed = int(n_bytes * _MARGIN)
    if free < needed:
        raise StoreError(
            f"{path}: needs {needed / 1e9:.2f} GB of disk, {free / 1e9:.2f} GB are free; free some "
            "space, store float16, or write elsewhere"
        )


def check_temporary_space(n_bytes: int, *, label: str) -> None:
    """Check that the directory of temporary files has room for ``n_bytes``.

    Raises:
        InputError: it is too small.
    """
    directory = tempfile.gettempdir()
    free = shutil.disk_usage(directory).free
    if n_bytes > 0.95 * free:
        raise InputError(
            f"{label}: needs a temporary copy of {byte_size(n_bytes, up=True)}, {directory} has "
            f"{byte_size(free)} free; free some or set TMPDIR to a larger disk"
        )


@dataclass(frozen=True, eq=False)
class MappedRows(ArrayRows):
    """Rows of a file that is mapped into memory, and is not cut while in use.

    Reading beyond the end of a map ends the process.

    Args:
        path: the file.
        n_bytes: its size when it was mapped.
    """

    path: Path
    n_bytes: int

    @classmethod
    def of(cls, values: NDArray[Any], path: Path) -> Self:
        """Return the rows of an array that was mapped from a file just now."""
        path = path.absolute()
        return cls(values, path, path.stat().st_size)

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Return rows ``start`` to ``stop`` (exclusive) as a new array.

        Raises:
            InputError: the file is not as long as it was.
        """
        self._check_size()
        return super().read(start, stop)

    def take(self, rows: IntArray) -> NDArray[Any]:
        """Return the given rows as a new array.

        Raises:
            InputError: as for ``read``.
        """
        self._check_size()
        return super().take(rows)

    def _check_size(self) -> None:
        try:
            n_bytes = self.path.stat().st_size
        except OSError as error:
            raise InputError(f"{self.path}: was removed while in use; write it again") from error
        if n_bytes < self.n_bytes:
            raise InputError(
                f"{self.path}: had {self.n_bytes} bytes and has {n_bytes}; it was changed while in "
                "use, start again"
            )


class GatheredRows:
    """Rows ``positions`` of ``rows``, in that order.

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


class ReorderedRows(GatheredRows):
    """``GatheredRows`` that are copied to a temporary file on the first read.

    Worth it where rows that are wanted together lie far apart in a source that can only be read
    in chunks. The copy is made in one pass over the source with bounded memory.
    """

    def __init__(self, rows: Rows, positions: IntArray, *, label: str) -> None:
        super().__init__(rows, positions)
        self._label = label

    @cached_property
    def _copy(self) -> Rows:
        return copy_in_order(self._rows, self._positions, label=self._label)

    def read(self, start: int, stop: int) -> FloatArray:
        """Return rows ``start`` to ``stop`` (exclusive) as a new array."""
        return self._copy.read(start, stop)

    def take(self, rows: IntArray) -> FloatArray:
        """Return the given rows; they are strictly increasing."""
        return self._copy.take(rows)


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
    """Return how many rows are read per row, if blocks read whole chunks."""
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
    order = np.argsort(positions)  # destinations, by the place of the rows in the source
    increasing = positions[order]
    block_rows = max(1, block_bytes // max(n_columns * rows.dtype.itemsize, 1))
    with RowSpool((n_rows, n_columns), rows.dtype, label=label) as spool:
        for start in range(0, n_rows, block_rows):
            sources = increasing[start : start + block_rows]
            targets = order[start : start + block_rows]
            values = GatheredRows(rows, sources).read(0, len(sources))
            by_target = np.argsort(targets)
            targets, values = targets[by_target], values[by_target]
            gaps = np.flatnonzero(np.diff(targets) != 1) + 1
            for first, last in pairwise([0, *gaps.tolist(), len(targets)]):  # neighbours at once
                spool.write(int(targets[first]), values[first:last])
        return spool.finish(n_rows)
