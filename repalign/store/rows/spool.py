"""A temporary file of rows, for what cannot be read by position: text, compressed, reordered."""

import tempfile
from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from repalign.rows import ArrayRows
from repalign.store.rows.disk_space import check_temporary_space


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
