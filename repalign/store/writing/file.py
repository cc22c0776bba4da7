"""Writing one HDF5 file of a store: the same for a shard and for a packed store."""

import errno
import os
import resource
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from repalign.printable import byte_size
from repalign.store.format.digests import column_root, digest_table, leaf_digest
from repalign.store.format.hdf5 import h5py
from repalign.store.format.header import Description, Header, IndexLayout, columns_of
from repalign.store.format.schema import (
    DIGESTS,
    FORMAT,
    FORMAT_VERSION,
    HEADER,
    Column,
)
from repalign.store.format.sealed_json import sha256_of

# What a file takes beside its values, at least: descriptions, and digests.
_OVERHEAD = 2**16


class FileWriter:
    """A new HDF5 file of ``n_rows`` rows; columns are written from their first row to the last.

    The header is written by :meth:`finish`: a file without one is not a store.

    Args:
        path: file to create; it must not exist.
        description: how the rows were made.
        index: columns of the row index.
        n_rows: number of rows, at least one.
        shard: number of the shard; None for a packed store.
    """

    def __init__(
        self,
        path: Path,
        description: Description,
        index: IndexLayout,
        *,
        n_rows: int,
        shard: int | None,
    ) -> None:
        self._description = description
        self._index = index
        self._n_rows = n_rows
        self._shard = shard
        self._columns = columns_of(description, index)
        self._leaves: dict[str, list[bytes]] = {column.path: [] for column in self._columns}
        self._check_limit(path)
        # v110: all metadata has checksums, so that HDF5 itself notices most damage.
        # No chunk cache: whole chunks are written once.
        self._file = h5py.File(path, "x", libver=("v110", "v110"), rdcc_nbytes=0)
        # kept open: closing a dataset after every chunk costs more than writing the chunk
        self._datasets = {column.path: self._created(column) for column in self._columns}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self._file.close()

    def _check_limit(self, path: Path) -> None:
        """Refuse what the limit on the size of a file stops: HDF5 cannot close such a file.

        Raises:
            OSError: the limit is below what the values take.
        """
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
        needed = self._n_rows * sum(each.row_bytes for each in self._columns) + _OVERHEAD
        if limit != resource.RLIM_INFINITY and needed > limit:
            raise OSError(
                errno.EFBIG,
                f"{os.strerror(errno.EFBIG)} for the limit of {byte_size(limit)} (ulimit -f)",
                str(path),
            )

    def _created(self, column: Column) -> Any:
        """Return the new, empty dataset of a column."""
        return self._file.create_dataset(
            column.path,
            shape=column.shape(self._n_rows),
            dtype=column.dtype,
            chunks=column.chunks(self._n_rows),
            track_times=False,
        )

    def write(self, column: Column, start: int, values: NDArray[Any]) -> None:
        """Write rows from ``start`` on; all but the last call give whole leaves."""
        dataset = self._datasets[column.path]
        values = np.ascontiguousarray(values, dtype=column.dtype)
        for at in range(0, len(values), column.leaf_rows):
            leaf = values[at : at + column.leaf_rows]
            row = start + at
            if len(leaf) == dataset.chunks[0]:  # as it is, past the selections of HDF5
                place = (row,) if column.width is None else (row, 0)
                dataset.id.write_direct_chunk(place, leaf)
            else:
                dataset.write_direct(leaf, dest_sel=np.s_[row : row + len(leaf)])
            self._leaves[column.path].append(leaf_digest(leaf))

    def finish(self) -> Header:
        """Write digests and, last of all, the header; return it."""
        for path, leaves in self._leaves.items():
            self._plain(f"{DIGESTS}/{path}", digest_table(leaves))
        header = Header(
            self._description,
            self._index,
            self._n_rows,
            self._shard,
            {path: column_root(leaves) for path, leaves in self._leaves.items()},
        )
        text = header.to_text()
        encoded = text.encode("utf-8", errors="surrogatepass")
        self._plain(HEADER, np.frombuffer(encoded, dtype=np.uint8))
        self._file.attrs["format"] = np.bytes_(FORMAT)
        self._file.attrs["format_version"] = np.int64(FORMAT_VERSION)
        self._file.attrs["header_sha256"] = np.bytes_(sha256_of(text))
        return header

    def _plain(self, path: str, values: NDArray[Any]) -> None:
        """Write a small contiguous dataset."""
        self._file.create_dataset(path, data=values, track_times=False)
