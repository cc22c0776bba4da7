"""Arrays in zarr directories: one array, a group of them, or an AnnData object.

zarr itself refuses pickled objects, whatever codec names them, and reads plain files only.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repalign.aliases import IntArray
from repalign.damage_errors import ZARR_ERRORS
from repalign.exceptions import InputError, MissingExtraError, reading
from repalign.expansion import check_expansion
from repalign.files import check_regular
from repalign.store.formats.array_trees import ArrayTree, read_anndata, read_tree
from repalign.store.formats.contents import ForeignMatrix, ForeignRequest, check_matrix_shape

_UNREADABLE = "not a readable zarr directory"


def read_zarr(request: ForeignRequest) -> ForeignMatrix:
    """Open one matrix of a zarr directory.

    Of an AnnData object ``X``, ``obsm/…`` and ``layers/…``, with the names of the observations as
    ids; of any other group its arrays by path, with an array of ids next to them.
    """
    try:
        import zarr  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("zarr", extra="zarr", purpose=f"reading {request.path}") from error
    tree = ZarrTree(request.path, "zarr")
    if tree.attribute("", "encoding-type") == "anndata":
        tree.layout = "AnnData in zarr"
        return read_anndata(request, tree)
    return read_tree(request, tree)


class ZarrTree(ArrayTree):
    """The arrays of a directory by path.

    Raises:
        InputError: no zarr directory, or one with links, pipes or devices in it.
    """

    def __init__(self, path: Path, layout: str) -> None:
        import zarr

        super().__init__(path, layout)
        for member in path.rglob("*"):
            if member.is_symlink():
                raise InputError(f"{member}: is a link, which is not followed; put a copy there")
            if not member.is_dir():
                check_regular(member)
        with reading(path, *ZARR_ERRORS, problem=_UNREADABLE):
            root: Any = zarr.open(str(path), mode="r")
            is_array = isinstance(root, zarr.Array)
            members = {} if is_array else dict(root.members(max_depth=None))
        self._groups = {
            name: member for name, member in members.items() if isinstance(member, zarr.Group)
        }
        self._groups[""] = root
        arrays = {path.stem: root} if is_array else members
        self.arrays = {
            name: array for name, array in arrays.items() if isinstance(array, zarr.Array)
        }
        for name, array in self.arrays.items():
            with reading(f"{path}::{name}", *ZARR_ERRORS, problem=_UNREADABLE):
                _ = array.shape, array.ndim, array.size, array.dtype.kind, array.dtype.itemsize

    def attribute(self, group: str, name: str) -> Any:
        """Return an attribute of a group; None where it is not there."""
        member = self._groups.get(group)
        with reading(f"{self.path}::{group}", *ZARR_ERRORS, problem=_UNREADABLE):
            return None if member is None else dict(member.attrs).get(name)

    def read(self, name: str) -> NDArray[Any]:
        """Return a whole array."""
        label = f"{self.path}::{name}"
        self._check(name, label=label)
        with reading(label, *ZARR_ERRORS, problem=_UNREADABLE):
            values = self.arrays[name][...]
        return np.asarray(values)

    def rows(self, name: str) -> "ZarrRows":
        """Return the rows of a matrix."""
        label = f"{self.path}::{name}"
        self._check(name, label=label)
        return ZarrRows(self.arrays[name], label=label)

    def stored_bytes(self, name: str) -> int:
        """Return the size of the files of an array."""
        return sum(file.stat().st_size for file in (self.path / self.arrays[name].path).rglob("*"))

    def _check(self, name: str, *, label: str) -> None:
        """Check that no chunk of an array is missing, and what it becomes.

        Raises:
            InputError: a chunk is missing, or too much would be expanded.
        """
        array = self.arrays[name]
        folder = self.path / array.path
        files = {file.relative_to(folder).as_posix(): file for file in folder.rglob("*")}
        with reading(label, *ZARR_ERRORS, problem=_UNREADABLE):
            chunks, sizes = array.chunks, array.shards or array.chunks
        for lengths in (chunks, sizes):
            if len(lengths) != array.ndim or not all(length > 0 for length in lengths):
                raise InputError(
                    f"{label}: has shape {array.shape} in chunks of {lengths}; expected a size "
                    "above zero for each dimension"
                )
        counts = [-(-length // size) for length, size in zip(array.shape, sizes, strict=True)]
        n_chunks = math.prod(counts)
        # compared first, since a small description may declare more chunks than can be looked for
        are_there = n_chunks <= len(files)
        keys = map(array.metadata.encode_chunk_key, np.ndindex(*counts if are_there else (0,)))
        chunks = [files.get(key) for key in keys]
        if not are_there or None in chunks:
            raise InputError(
                f"{label}: lacks some of its {n_chunks} chunks, which would be read as "
                f"{array.fill_value}; it is incomplete: copy it again (zarr also leaves chunks out "
                "that hold nothing else, unless its setting array.write_empty_chunks is on)"
            )
        n_stored = sum(file.stat().st_size for file in chunks if file is not None)
        # a chunk is expanded as a whole, and may be larger than the array
        n_bytes = max(array.size, math.prod(sizes)) * array.dtype.itemsize
        check_expansion(n_stored, n_bytes, label=label)


class ZarrRows:
    """Rows of an array, read chunk by chunk where they lie."""

    def __init__(self, array: Any, *, label: str) -> None:
        self._array = array
        self._label = label
        self.shape = check_matrix_shape(array.shape, label=label)
        self.dtype: np.dtype[Any] = np.dtype(array.dtype)
        self.chunk_rows = int(array.chunks[0])

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Return rows ``start`` to ``stop`` (exclusive) as a new array."""
        start, stop, _ = slice(start, stop).indices(self.shape[0])
        problem = f"rows {start} to {stop} cannot be read, is it damaged?"
        with reading(self._label, *ZARR_ERRORS, problem=problem):
            values = self._array[start : max(start, stop)]
        return np.asarray(values)

    def take(self, rows: IntArray) -> NDArray[Any]:
        """Return the given rows; they are strictly increasing."""
        problem = "some rows cannot be read, is it damaged?"
        with reading(self._label, *ZARR_ERRORS, problem=problem):
            values = self._array.get_orthogonal_selection((rows, slice(None)))
        return np.asarray(values)
