"""A temporary file of rows, for what cannot be read by position: text, compressed, reordered."""

import os
import tempfile
from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from repalign.store.rows.disk_space import check_temporary_space
from repalign.store.rows.file import FileRows

BLOCK_BYTES = 64 * 2**20


class RowSpool:
    """Rows written to an unnamed temporary file, which vanishes when nobody reads it any more.

    The file lies in the directory of temporary files (``TMPDIR``).

    Args:
        shape: number of rows and columns; the rows are written in any order.
        dtype: type of the values.
        label: what is copied, for messages.

    Raises:
        InputError: the disk has too little room.
    """

    def __init__(self, shape: tuple[int, int], dtype: np.dtype[Any], *, label: str) -> None:
        self._shape = shape
        self._dtype = dtype
        self._label = label
        self._row_bytes = shape[1] * dtype.itemsize
        check_temporary_space(shape[0] * self._row_bytes, label=label)
        self._file = tempfile.TemporaryFile(prefix="repalign-", buffering=0)  # noqa: SIM115

    def write(self, first_row: int, values: NDArray[Any]) -> None:
        """Write consecutive rows from ``first_row`` on."""
        block = np.ascontiguousarray(values, dtype=self._dtype)
        buffer = block.reshape(-1).view(np.uint8).data
        position = first_row * self._row_bytes
        while len(buffer):
            count = os.pwrite(self._file.fileno(), buffer, position)
            buffer = buffer[count:]
            position += count

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self._file.close()

    def finish(self, n_rows: int) -> FileRows:
        """Return the first ``n_rows`` rows for reading; they outlive the spool."""
        self._file.truncate(n_rows * self._row_bytes)
        descriptor = os.dup(self._file.fileno())
        shape = (n_rows, self._shape[1])
        return FileRows(descriptor, label=self._label, shape=shape, dtype=self._dtype)


def spool_blocks(
    blocks: Iterable[NDArray[Any]], *, n_rows: int, n_columns: int, dtype: np.dtype[Any], label: str
) -> FileRows:
    """Copy consecutive blocks of rows to a temporary file and return it for reading.

    ``n_rows`` is an upper bound where the number is not known beforehand.
    """
    written = 0
    with RowSpool((n_rows, n_columns), dtype, label=label) as spool:
        for block in blocks:
            spool.write(written, block)
            written += len(block)
        return spool.finish(written)


def transposed(columns: FileRows, *, label: str) -> FileRows:
    """Copy a matrix that is stored column by column to a temporary file, row by row."""
    n_columns, n_rows = columns.shape
    step = max(1, BLOCK_BYTES // (n_columns * columns.dtype.itemsize))
    blocks = (
        columns.read_columns(start, min(start + step, n_rows)).T for start in range(0, n_rows, step)
    )
    return spool_blocks(
        blocks, n_rows=n_rows, n_columns=n_columns, dtype=columns.dtype, label=label
    )
