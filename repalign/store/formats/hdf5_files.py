"""Arrays in foreign HDF5 files (``.h5``, ``.hdf5``, ``.h5ad``).

A file may point to other files (external links, external storage, virtual datasets), declare
more than it holds, or name filters that load code: all of these are refused.
"""

import math
import os
import threading
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from repalign.aliases import IntArray
from repalign.exceptions import InputError
from repalign.expansion import check_expansion
from repalign.store.formats.array_trees import (
    ArrayTree,
    observation_columns,
    read_anndata,
    read_column,
    read_observation_ids,
    read_tree,
)
from repalign.store.formats.contents import ForeignMatrix, ForeignRequest
from repalign.store.hdf5 import check_stored_inside, h5py, reading_hdf5

CACHE_BYTES = 2**26
IMAGE_NAMES = ("images", "x", "X", "data")


def read_hdf5(request: ForeignRequest) -> ForeignMatrix:
    """Open one matrix of an HDF5 file; a view is the path of a dataset."""
    with Hdf5Tree(request.path, layout="HDF5 dataset") as tree:
        return read_tree(request, tree)


def read_h5ad(request: ForeignRequest) -> ForeignMatrix:
    """Open one dense matrix of an AnnData file; the ids are the names of the observations."""
    with Hdf5Tree(request.path, layout="AnnData") as tree:
        return read_anndata(request, tree)


def read_observations(
    path: Path, *, id_column: str | None = None
) -> tuple[dict[str, NDArray[Any]], list[str] | None]:
    """Return the columns of ``obs`` of an AnnData file, without those of rare types, and the ids.

    Raises:
        InputError: there are no observations, or they cannot be read.
    """
    with Hdf5Tree(path, layout="AnnData") as tree:
        ids, ids_from = read_observation_ids(ForeignRequest(path, id_column=id_column), tree)
        names = observation_columns(tree)
        if not names or "__categories" in names:
            raise InputError(
                f"{path}::obs: is not there, or older than AnnData 0.8; write it again"
            )
        columns = {
            name: read_column(tree, f"obs/{name}") for name in names if f"obs/{name}" != ids_from
        }
    return {name: values for name, values in columns.items() if values is not None}, ids


class Hdf5Tree(ArrayTree):
    """The datasets of a file by path, reached by hard links only; use it as a context.

    Raises:
        InputError: no HDF5 file, or one with soft or external links, which could lead anywhere.
    """

    def __init__(self, path: Path, layout: str) -> None:
        super().__init__(path, layout)
        self._file = _open_file(path)
        try:
            self._list_datasets()
        except BaseException:
            self._file.close()
            raise

    def _list_datasets(self) -> None:
        links: list[tuple[str, Any]] = []
        with reading_hdf5(self.path):
            self._file.visititems_links(lambda name, link: links.append((name, link)))
        for name, link in links:
            if not isinstance(link, h5py.HardLink):
                raise InputError(
                    f"{self.path}::{name}: is a soft or external link, which is not followed; "
                    "copy the data"
                )
            with reading_hdf5(f"{self.path}::{name}"):
                member = self._file[name]
                if isinstance(member, h5py.Dataset):
                    _ = member.shape, member.dtype, member.chunks  # HDF5 decodes them now
                    self.arrays[name] = member

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self._file.close()

    def attribute(self, group: str, name: str) -> Any:
        """Return an attribute of a group; None where it is not there."""
        with reading_hdf5(f"{self.path}::{group}@{name}"):
            value = self._file[group].attrs.get(name) if group in self._file else None
        return value.decode(errors="replace") if isinstance(value, bytes) else value

    def read(self, name: str) -> NDArray[Any]:
        """Return a whole dataset."""
        check_dataset(self.arrays[name], f"{self.path}::{name}")
        return _read_values(self.arrays[name], (), f"{self.path}::{name}")

    def rows(self, name: str) -> "Hdf5Rows":
        """Return the rows of a matrix."""
        return Hdf5Rows(self.path, name)

    def stored_bytes(self, name: str) -> int:
        """Return the size of the file."""
        return self.path.stat().st_size


def _open_file(path: Path) -> Any:
    with reading_hdf5(path):
        return h5py.File(path, "r", locking=False, rdcc_nbytes=CACHE_BYTES)


def _read_values(dataset: Any, rows: Any, label: str) -> NDArray[Any]:
    with reading_hdf5(label):
        values: NDArray[Any] = dataset[rows]
    return values


def check_dataset(dataset: Any, label: str) -> None:
    """Check that the values lie in this file, as many as declared, behind known filters.

    Raises:
        InputError: they do not.
    """
    properties = check_stored_inside(dataset, label)
    with reading_hdf5(label):
        filters = [properties.get_filter(place)[0] for place in range(properties.get_nfilters())]
        n_stored = dataset.id.get_storage_size()
    unknown = next((number for number in filters if not h5py.h5z.filter_avail(number)), None)
    if unknown is not None:
        raise InputError(
            f"{label}: is compressed with the filter number {unknown}, which is not available; "
            "rewrite it without compression or with gzip"
        )
    n_bytes = int(dataset.nbytes)
    if dataset.chunks is None:
        if n_bytes > n_stored:
            raise InputError(
                f"{label}: declares {n_bytes} bytes and holds {n_stored}; it is incomplete or "
                "damaged: write it again"
            )
        return
    lengths = zip(dataset.shape, dataset.chunks, strict=True)
    n_chunks = math.prod(-(-length // size) for length, size in lengths)
    with reading_hdf5(label):
        n_present, fill = dataset.id.get_num_chunks(), dataset.fillvalue
    if n_present < n_chunks:
        raise InputError(
            f"{label}: holds {n_present} of its {n_chunks} chunks, and the others would be read as "
            f"{fill}; it is incomplete: write all of its rows"
        )
    # a chunk is expanded as a whole, and may be larger than the array
    chunk_bytes = math.prod(map(int, dataset.chunks)) * dataset.dtype.itemsize
    check_expansion(n_stored, max(n_bytes, chunk_bytes), label=label)


class Hdf5Rows:
    """Rows of a two-dimensional dataset, read in slices; each process opens the file itself.

    Args:
        path: the file.
        name: path of the dataset in it, which was reached by hard links.
    """

    def __init__(self, path: Path, name: str) -> None:
        self._path = path
        self._name = name
        self._label = f"{path}::{name}"
        self._process = -1
        self._dataset: Any = None
        dataset = self._open_dataset()
        check_dataset(dataset, self._label)
        self.shape: tuple[int, int] = dataset.shape
        self.dtype: np.dtype[Any] = dataset.dtype
        self.chunk_rows = 1 if dataset.chunks is None else int(dataset.chunks[0])

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Return rows ``start`` to ``stop`` (exclusive) as a new array."""
        return _read_values(self._open_dataset(), slice(start, stop), self._label)

    def take(self, rows: IntArray) -> NDArray[Any]:
        """Return the given rows; they are strictly increasing. Each chunk is read once."""
        values = np.empty((len(rows), self.shape[1]), dtype=self.dtype)
        if not len(rows):
            return values
        edges = np.flatnonzero(np.diff(rows // max(self.chunk_rows, 64))) + 1
        for first, last in zip([0, *edges.tolist()], [*edges.tolist(), len(rows)], strict=True):
            lowest = int(rows[first])
            block = self.read(lowest, int(rows[last - 1]) + 1)
            values[first:last] = block[rows[first:last] - lowest]
        return values

    def _open_dataset(self) -> Any:
        """Return the dataset; a handle that was opened before a fork reads wrong bytes."""
        if self._process != os.getpid():
            file = _open_file(self._path)
            with reading_hdf5(self._label):
                self._dataset = file[self._name]
            self._process = os.getpid()
        return self._dataset


class Hdf5Images:
    """Images of one dataset, read one by one and from several threads at once.

    Args:
        path: the file.
        name: path of the dataset in it; by default the one that is named like images, or the
            only one.

    Raises:
        InputError: no such dataset, or values outside the file or behind unknown filters.
    """

    def __init__(self, path: Path, name: str | None = None) -> None:
        self._label = str(path)
        self._lock = threading.Lock()
        datasets = Hdf5Tree(path, layout="HDF5 images").arrays
        candidates = [name] if name else [n for n in IMAGE_NAMES if n in datasets]
        if not candidates and len(datasets) == 1:
            candidates = list(datasets)
        if not candidates or candidates[0] not in datasets:
            raise InputError(
                f"no dataset {name or 'of images'} in {path.name}; it has "
                f"{', '.join(sorted(datasets)[:8]) or 'none'}: choose one with --column"
            )
        self.name = candidates[0]
        self._dataset = datasets[self.name]
        check_dataset(self._dataset, f"{path}::{self.name}")
        self.shape: tuple[int, ...] = self._dataset.shape
        self.dtype: np.dtype[Any] = self._dataset.dtype

    def __getitem__(self, row: int | slice) -> NDArray[Any]:
        with self._lock:
            return _read_values(self._dataset, row, self._label)
