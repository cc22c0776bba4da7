"""The HDF5 files of a store, a shard or all rows packed, and packing a directory of shards."""

import errno
import os
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from repalign.arguments import checked
from repalign.exceptions import InputError, StoreError
from repalign.files import check_output, writing
from repalign.printable import byte_size
from repalign.store.digests import column_root, digest_table, leaf_digest, sha256_of
from repalign.store.format import DIGESTS, FORMAT, FORMAT_VERSION, HEADER, PARTS_SUFFIX, Column
from repalign.store.hdf5 import check_sizes, h5py
from repalign.store.header import Description, Header, IndexLayout, columns_of
from repalign.store.reader import Store
from repalign.store.rows import check_space

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
        # stay open: closing a dataset after every chunk costs more than writing the chunk
        self._datasets = {
            column.path: self._file.create_dataset(
                column.path,
                shape=column.shape(n_rows),
                dtype=column.dtype,
                chunks=column.chunks(n_rows),
                track_times=False,
            )
            for column in self._columns
        }

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
        needed = self._n_rows * sum(column.row_bytes for column in self._columns) + _OVERHEAD
        if limit != resource.RLIM_INFINITY and needed > limit:
            raise OSError(
                errno.EFBIG,
                f"{os.strerror(errno.EFBIG)} for the limit of {byte_size(limit)} (ulimit -f)",
                str(path),
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
            self._file.create_dataset(
                f"{DIGESTS}/{path}", data=digest_table(leaves), track_times=False
            )
        header = Header(
            self._description,
            self._index,
            self._n_rows,
            self._shard,
            {path: column_root(leaves) for path, leaves in self._leaves.items()},
        )
        text = header.to_text()
        encoded = np.frombuffer(text.encode("utf-8", errors="surrogatepass"), dtype=np.uint8)
        self._file.create_dataset(HEADER, data=encoded, track_times=False)
        self._file.attrs["format"] = np.bytes_(FORMAT)
        self._file.attrs["format_version"] = np.int64(FORMAT_VERSION)
        self._file.attrs["header_sha256"] = np.bytes_(sha256_of(text))
        return header


OnProgress = Callable[[int, int], None]


@checked
def pack_store(
    directory: str | Path,
    target: str | Path | None = None,
    *,
    overwrite: bool = False,
    on_progress: OnProgress | None = None,
) -> Path:
    """Copy a complete directory store into one file, which appears under its name when it is whole.

    Every value is checked on the way. The directory is left as it is.

    Args:
        directory: a directory of shards.
        target: the file, ending in ``.h5``; by default the directory's name with that ending.
        overwrite: replace an existing file.
        on_progress: called with the leaves done and their total.

    Returns:
        The path of the file.

    Raises:
        InputError: the target exists or has another ending.
        StoreError: the directory is no complete store or is damaged, or the disk is full.

    Example:
        >>> import numpy as np, repalign
        >>> info = repalign.write_store("shards", np.eye(3))  # no .h5: a directory of shards
        >>> pack_store("shards", "packed.h5").name
        'packed.h5'
    """
    directory = Path(directory)
    if not directory.is_dir():
        raise StoreError(f"{directory}: not a directory; only a directory of shards is packed")
    if target is None:
        folder = directory.resolve() if directory.name in ("", "..") else directory
        if not folder.name:
            raise InputError(f"{folder}: has no name to call the file by; name the file too")
        name = folder.name.removesuffix(PARTS_SUFFIX)
        target = folder.with_name(name if name.endswith(".h5") else f"{folder.stem}.h5")
    target = Path(target)
    check_target(target, overwrite=overwrite)
    with Store(directory) as store:
        return pack_opened(store, target, on_progress)


def check_target(path: Path, *, overwrite: bool) -> None:
    """Refuse a target that is no file name of a store, is an input, or exists.

    Raises:
        InputError: another ending than ``.h5``, a directory or device, or a file that may not be
            replaced.
    """
    if path.suffix != ".h5":
        raise InputError(f"{path}: a packed store is named *.h5; choose such a name")
    # the folder may come later
    if path.parent.exists() and check_output(path, overwrite=overwrite) is None:
        raise InputError(f"{path}: is a pipe or a device, and a store is a file; choose another")


def pack_opened(
    store: Store,
    target: Path,
    on_progress: OnProgress | None = None,
    *,
    scratch: Path | None = None,
) -> Path:
    """Pack an open directory store, replacing the target.

    Args:
        store: the directory store.
        target: the file.
        on_progress: called with the leaves done and their total.
        scratch: directory for the unfinished file; by default a new one.

    Raises:
        StoreError: the file cannot be written, or the directory is damaged.
    """
    check_space(target, store.info.n_bytes)
    columns = columns_of(store.description, store.index_layout)
    total, done = sum(column.n_leaves(len(store)) for column in columns), 0
    try:
        with writing(target, failure=StoreError, scratch=scratch) as whole:
            with FileWriter(
                whole, store.description, store.index_layout, n_rows=len(store), shard=None
            ) as file:
                for column in columns:
                    for start in range(0, len(store), column.leaf_rows):
                        stop = min(len(store), start + column.leaf_rows)
                        file.write(column, start, store.read_column(column, start, stop))
                        done += 1
                        if on_progress:
                            on_progress(done, total)
                header = file.finish()
            check_sizes(header, whole.stat().st_size, str(target))
    except (OSError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:160]
        raise StoreError(f"{target}: cannot be written ({reason})") from error
    return target
