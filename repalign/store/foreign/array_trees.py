"""Arrays by path, as HDF5 files and zarr directories hold them: the matrix meant and its ids."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from numpy.typing import NDArray

from repalign.aliases import Rows
from repalign.exceptions import InputError
from repalign.expansion import TEXT_BYTES, check_identities
from repalign.store.foreign.contents import (
    ID_NAMES,
    ForeignMatrix,
    ForeignRequest,
    check_matrix_shape,
    choose_view,
    texts_of,
)
from repalign.store.rows import float_type

NUMBERS = "fiub"


class ChunkedRows(Rows, Protocol):
    """Rows that are read in chunks of so many."""

    chunk_rows: int


class ArrayTree(Protocol):
    """An open file or directory of arrays."""

    path: Path
    layout: str

    @property
    def arrays(self) -> Mapping[str, Any]:
        """All arrays by path; each has a shape, a number of dimensions and a type."""
        ...

    def attribute(self, group: str, name: str) -> Any:
        """Return an attribute of a group; None where it is not there."""
        ...

    def read(self, name: str) -> NDArray[Any]:
        """Return a whole array, after checking that it lies here as declared."""
        ...

    def rows(self, name: str) -> ChunkedRows:
        """Return the rows of a matrix, after checking that they lie here as declared."""
        ...

    def stored_bytes(self, name: str) -> int:
        """Return the size of the file, or of the files, that an array is read from."""
        ...


def read_tree(request: ForeignRequest, tree: ArrayTree) -> ForeignMatrix:
    """Open one matrix of a tree; a view is a path.

    Ids are the array ``id_column``, or one named ``id``, ``ids`` or ``sample_id``.
    """
    names = ID_NAMES if request.id_column is None else (request.id_column,)
    id_name = next((name for name in names if name in tree.arrays), None)
    if id_name is None and request.id_column is not None:
        raise InputError(
            f"{request.path}: has no dataset {request.id_column!r} of ids; it has "
            f"{', '.join(tree.arrays)}"
        )
    shapes = {
        name: tuple(array.shape)
        for name, array in tree.arrays.items()
        if name != id_name and array.dtype.kind in NUMBERS and array.shape
    }
    view = choose_view(request, shapes)
    ids = None if id_name is None else read_texts(tree, id_name)
    return tree_matrix(tree, view, ids=ids, ids_from=id_name or "")


def tree_matrix(
    tree: ArrayTree,
    view: str,
    *,
    ids: list[str] | None,
    ids_from: str,
    columns: list[str] | None = None,
) -> ForeignMatrix:
    """Return a matrix of a tree; ``ids_from`` is the path of its ids in it."""
    label = f"{tree.path}::{view}"
    check_matrix_shape(tree.arrays[view].shape, label=label)
    float_type(tree.arrays[view].dtype, label=label)
    raw = tree.rows(view)
    return ForeignMatrix(
        view=view,
        raw=raw,
        layout=tree.layout,
        ids=ids,
        ids_from=ids_from and f"{tree.path}::{ids_from}",
        chunk_rows=raw.chunk_rows,
        columns=columns,
    )


def check_text_count(tree: ArrayTree, name: str) -> None:
    """Check that an array with a text for each of its values does not take too much memory.

    Raises:
        InputError: it does.
    """
    array = tree.arrays[name]
    n_bytes = int(array.size) * (TEXT_BYTES + array.dtype.itemsize)
    label = f"{tree.path}::{name}"
    check_identities(n_bytes, label=label, stored=tree.stored_bytes(name))


def read_texts(tree: ArrayTree, name: str) -> list[str]:
    """Return an array of texts or integers as texts.

    Raises:
        InputError: not one dimension of them, or too many.
    """
    label = f"{tree.path}::{name}"
    array = tree.arrays[name]
    if array.ndim != 1 or array.dtype.kind not in "SUOTiu":
        raise InputError(
            f"{label}: ids are {array.dtype} of shape {array.shape}; expected one text or integer "
            "per row"
        )
    check_text_count(tree, name)
    values = tree.read(name)
    # texts of any length, a type of numpy 2
    return texts_of(values.astype(object) if values.dtype.kind == "T" else values, label=label)
