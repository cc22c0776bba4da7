"""Rows in files: mapped into memory, or copied to a temporary file; room on the disk."""

import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from repalign.aliases import IntArray
from repalign.exceptions import InputError, StoreError
from repalign.printable import byte_size
from repalign.rows import ArrayRows


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


_MARGIN = 1.05


def check_space(path: Path, n_bytes: int) -> None:
    """Refuse to start what cannot be finished.

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
        InputError: it has not.
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
    """Rows of a file that is mapped into memory; its size is compared before every read.

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
