"""Objects of a foreign HDF5 file, reached by hard links only and checked before they are read.

A file may point to other files (external links, external storage, virtual datasets), declare
more than it holds, or name filters that load code: all of these are refused.
"""

import math
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repalign.aliases import IntArray
from repalign.exceptions import InputError
from repalign.expansion import check_expansion
from repalign.store.format.hdf5 import h5py, reading_hdf5

MAX_OBJECTS = 10_000
MAX_DEPTH = 8
CACHE_BYTES = 2**26
# deflate, shuffle, fletcher32, lzf and blosc2, by their HDF5 numbers
FILTERS = {1: "gzip", 2: "shuffle", 3: "fletcher32", 32000: "lzf", 32026: "blosc2"}


def open_file(path: Path) -> Any:
    """Open an HDF5 file for reading."""
    with reading_hdf5(path):
        return h5py.File(path, "r", locking=False, rdcc_nbytes=CACHE_BYTES)


def member_names(group: Any, label: str) -> list[str]:
    """Return the names in a group.

    Raises:
        InputError: there are more than are read, or the group is damaged.
    """
    with reading_hdf5(label):
        n_members = len(group)
    if n_members > MAX_OBJECTS:
        raise InputError(
            f"{label}: holds more than {MAX_OBJECTS} objects; save the embeddings in a file of "
            "their own"
        )
    with reading_hdf5(label):
        return list(group)


def read_values(dataset: Any, rows: Any, label: str) -> NDArray[Any]:
    """Return some values of a dataset."""
    with reading_hdf5(label):
        values: NDArray[Any] = dataset[rows]
    return values


def list_datasets(file: Any, label: str) -> dict[str, Any]:
    """Return every dataset of a file by its path.

    Raises:
        InputError: a link that is not a hard link, a group with two names, or more or deeper
            objects than are read.
    """
    found: dict[str, Any] = {}
    waiting = [("", file)]
    seen = set()
    while waiting:
        prefix, group = waiting.pop()
        with reading_hdf5(f"{label}::{prefix}"):
            address = h5py.h5o.get_info(group.id).addr
        # a group that is inside itself would be listed for ever
        if address in seen or prefix.count("/") > MAX_DEPTH:
            raise InputError(f"{label}::{prefix}: is nested in itself or too deeply; copy the data")
        seen.add(address)
        names = member_names(group, label)
        if len(names) + len(found) + len(waiting) > MAX_OBJECTS:
            raise InputError(
                f"{label}: holds more than {MAX_OBJECTS} objects; save the embeddings in a file of "
                "their own"
            )
        for name in names:
            member = open_member(group, name, f"{label}::{prefix}{name}")
            if isinstance(member, h5py.Group):
                waiting.append((f"{prefix}{name}/", member))
            elif isinstance(member, h5py.Dataset):
                found[f"{prefix}{name}"] = member
    return found


def open_member(group: Any, name: str, label: str) -> Any:
    """Return a member of a group that is reached by a hard link.

    Raises:
        InputError: it is a soft or external link, which could lead to any file.
    """
    with reading_hdf5(label):
        link = group.id.links.get_info(name.encode()).type
    if link != h5py.h5l.TYPE_HARD:
        raise InputError(
            f"{label}: is a soft or external link, which is not followed; copy the data"
        )
    with reading_hdf5(label):
        member = group[name]
        if isinstance(member, h5py.Dataset):
            _ = member.shape, member.dtype, member.chunks  # HDF5 decodes them now, and once
    return member


def check_dataset(dataset: Any, label: str) -> None:
    """Check that the values lie in this file, as many as declared, behind known filters.

    Raises:
        InputError: they do not.
    """
    with reading_hdf5(label):
        properties = dataset.id.get_create_plist()
        n_external, layout = properties.get_external_count(), properties.get_layout()
        numbers = [properties.get_filter(place)[0] for place in range(properties.get_nfilters())]
        stored = dataset.id.get_storage_size()
    if n_external or layout == h5py.h5d.VIRTUAL:
        raise InputError(
            f"{label}: has its values in other files (external storage or a virtual dataset), "
            "which are not read; copy the data into one file"
        )
    for number in numbers:
        if number not in FILTERS or not h5py.h5z.filter_avail(number):
            name = FILTERS.get(number, f"number {number}")
            raise InputError(
                f"{label}: is compressed with the filter {name}, which is not available; "
                f"rewrite it without compression or with gzip"
            )
    if dataset.chunks is None:
        if dataset.nbytes > stored:
            raise InputError(
                f"{label}: declares {dataset.nbytes} bytes and holds {stored}; it is incomplete or "
                "damaged: write it again"
            )
        return
    _check_chunks(dataset, stored, label)


def _check_chunks(dataset: Any, stored: int, label: str) -> None:
    """Check that no chunk is missing, which HDF5 would read as zeros, or too large to expand."""
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
    check_expansion(stored, max(int(dataset.nbytes), chunk_bytes), label=label)


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
        dataset = self._opened()
        check_dataset(dataset, self._label)
        self.shape: tuple[int, int] = dataset.shape
        self.dtype: np.dtype[Any] = dataset.dtype
        self.chunk_rows = 1 if dataset.chunks is None else int(dataset.chunks[0])

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Return rows ``start`` to ``stop`` (exclusive) as a new array."""
        return read_values(self._opened(), slice(start, stop), self._label)

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

    def _opened(self) -> Any:
        """Return the dataset; a handle that was opened before a fork reads wrong bytes."""
        if self._process != os.getpid():
            file = open_file(self._path)
            with reading_hdf5(self._label):
                self._dataset = file[self._name]
            self._process = os.getpid()
        return self._dataset
