"""Rows of a plain binary file, read by position: no memory map, so a cut file is an error."""

import os
import weakref
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repalign.aliases import IntArray
from repalign.exceptions import InputError


class FileRows:
    """Row-major matrix at an offset of a file; only the rows asked for are in memory.

    Args:
        descriptor: open file; this object owns it and closes it when it is dropped.
        label: name of the file for messages.
        shape: number of rows and columns.
        dtype: type of the values in the file, any byte order.
        offset: byte at which the first row starts.
        row_step: bytes from one row to the next; by default rows follow on each other.

    Raises:
        InputError: the file is shorter than the matrix.
    """

    def __init__(
        self,
        descriptor: int,
        *,
        label: str,
        shape: tuple[int, int],
        dtype: np.dtype[Any],
        offset: int = 0,
        row_step: int | None = None,
    ) -> None:
        self._descriptor = descriptor
        self._close = weakref.finalize(self, os.close, descriptor)
        self._label = label
        self._offset = offset
        self.shape = shape
        self.dtype = dtype
        self._row_bytes = shape[1] * dtype.itemsize
        self._row_step = self._row_bytes if row_step is None else row_step
        expected = offset + (shape[0] - 1) * self._row_step + self._row_bytes
        found = os.fstat(descriptor).st_size
        if found < expected:
            raise InputError(
                f"{label}: the file has {found} bytes, its header promises {expected}; "
                "it was cut or damaged, write it again"
            )

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Return rows ``start`` to ``stop`` (exclusive) as a new array."""
        start, stop, _ = slice(start, stop).indices(self.shape[0])
        values = np.empty((max(stop - start, 0), self.shape[1]), dtype=self.dtype)
        self._read_rows(values, start)
        return values

    def take(self, rows: IntArray) -> NDArray[Any]:
        """Return the given rows; they are strictly increasing."""
        values = np.empty((len(rows), self.shape[1]), dtype=self.dtype)
        edges = np.flatnonzero(np.diff(rows) != 1) + 1
        starts = [0, *edges.tolist()] if len(rows) else []
        stops = [*edges.tolist(), len(rows)]
        for first, last in zip(starts, stops, strict=len(rows) > 0):
            self._read_rows(values[first:last], int(rows[first]))
        return values

    def read_columns(self, start: int, stop: int) -> NDArray[Any]:
        """Return columns ``start`` to ``stop`` (exclusive) of all rows as a new array."""
        values = np.empty((self.shape[0], stop - start), dtype=self.dtype)
        for row in range(self.shape[0]):
            self._fill(values[row], row, skip_bytes=start * self.dtype.itemsize)
        return values

    def _read_rows(self, values: NDArray[Any], first_row: int) -> None:
        """Read consecutive rows from ``first_row`` on into ``values``."""
        if self._row_step == self._row_bytes:
            self._fill(values, first_row)
            return
        for row in range(len(values)):
            self._fill(values[row], first_row + row)

    def _fill(self, values: NDArray[Any], first_row: int, *, skip_bytes: int = 0) -> None:
        """Read consecutive values from ``first_row`` on into ``values``."""
        buffer = values.reshape(-1).view(np.uint8).data
        start = position = self._offset + first_row * self._row_step + skip_bytes
        while len(buffer):
            count = os.preadv(self._descriptor, [buffer], position)
            if count == 0:
                raise InputError(
                    f"{self._label}: the file ends at byte {position}, inside row "
                    f"{first_row + (position - start) // self._row_bytes}; it was changed while in "
                    "use"
                )
            buffer = buffer[count:]
            position += count


def open_file_rows(
    path: Path,
    *,
    shape: tuple[int, int],
    dtype: np.dtype[Any],
    offset: int,
    row_step: int | None = None,
) -> FileRows:
    """Open the matrix that starts at ``offset`` of ``path``."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    return FileRows(
        descriptor, label=str(path), shape=shape, dtype=dtype, offset=offset, row_step=row_step
    )
