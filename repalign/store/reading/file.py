"""One HDF5 file of a store, opened for reading."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repalign.exceptions import StoreError
from repalign.store.format.hdf5 import reading_hdf5
from repalign.store.format.schema import STATS
from repalign.store.format.stats import ViewStats, stats_sha256
from repalign.store.reading.column import ColumnReader
from repalign.store.reading.safety import open_checked


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
            found = next(column for column in self.header.columns if column.path == path)
            self._columns[path] = ColumnReader(
                self._file,
                found,
                self.header,
                path=str(self.path),
                first_row=self.first_row,
            )
        return self._columns[path]

    def read(self, path: str, start: int, stop: int) -> NDArray[Any]:
        """Return rows of a column."""
        reader = self.column(path)
        out = np.empty(reader.column.shape(stop - start), dtype=reader.column.dtype)
        reader.read_into(start, stop, out)
        return out

    def stats(self, view: str) -> ViewStats:
        """Return the statistics of a view.

        Raises:
            StoreError: they do not match their checksum.
        """
        where = f"{self.path}: {STATS}/{view}"
        with reading_hdf5(where, failure=StoreError):
            table = self._file[f"{STATS}/{view}"][()]
        entry = self.header.stats[view]
        if stats_sha256(table) != entry["sha256"]:
            raise StoreError(f"{where}: does not match its checksum; the file is damaged")
        if not np.isfinite(table).all() or (table[1] < 0).any() or entry["max_norm"] < 0:
            raise StoreError(f"{where}: holds what no statistics are; write the store again")
        return ViewStats(self.header.n_rows, table[0], table[1], entry["max_norm"])

    def close(self) -> None:
        """Release the file."""
        self._columns.clear()
        self._file.close()
