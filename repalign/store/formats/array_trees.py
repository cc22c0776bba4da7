"""Arrays by path, as HDF5 files and zarr directories hold them: the matrix meant and its ids.

An AnnData object is read as its specification describes it: a matrix is an array, and the names of
the observations are the column of ``obs`` that its attribute ``_index`` names.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repalign.exceptions import InputError
from repalign.expansion import TEXT_BYTES, check_identities
from repalign.store.formats.contents import (
    ID_NAMES,
    ForeignMatrix,
    ForeignRequest,
    check_matrix_shape,
    choose_view,
    texts_of,
)
from repalign.store.rows import float_type

NUMBERS = "fiub"


class ArrayTree:
    """An open file or directory of arrays.

    Args:
        path: the file or directory.
        layout: what reports call it.

    Attributes:
        arrays: all arrays by path; each has a shape, a number of dimensions and a type.
    """

    def __init__(self, path: Path, layout: str) -> None:
        self.path = path
        self.layout = layout
        self.arrays: dict[str, Any] = {}

    def attribute(self, group: str, name: str) -> Any:
        """Return an attribute of a group; None where it is not there."""
        raise NotImplementedError

    def read(self, name: str) -> NDArray[Any]:
        """Return a whole array, after checking that it lies here as declared."""
        raise NotImplementedError

    def rows(self, name: str) -> Any:
        """Return the rows of a matrix, after checking that they lie here as declared."""
        raise NotImplementedError

    def stored_bytes(self, name: str) -> int:
        """Return the size of the file, or of the files, that an array is read from."""
        raise NotImplementedError

    def texts(self, name: str) -> list[str]:
        """Return an array of texts or integers as texts.

        Raises:
            InputError: not one dimension of them, or too many.
        """
        label, array = f"{self.path}::{name}", self.arrays[name]
        if array.ndim != 1 or array.dtype.kind not in "SUOTiu":
            raise InputError(
                f"{label}: ids are {array.dtype} of shape {array.shape}; expected one text or "
                "integer per row"
            )
        self.check_text_count(name)
        values = self.read(name)
        # texts of any length, a type of numpy 2
        return texts_of(values.astype(object) if values.dtype.kind == "T" else values, label=label)

    def check_text_count(self, name: str) -> None:
        """Check that an array with a text for each of its values does not take too much memory.

        Raises:
            InputError: it does.
        """
        array = self.arrays[name]
        n_bytes = int(array.size) * (TEXT_BYTES + array.dtype.itemsize)
        stored = self.stored_bytes(name)
        check_identities(n_bytes, label=f"{self.path}::{name}", stored=stored)

    def matrix(
        self, view: str, ids: list[str] | None, ids_from: str, columns: list[str] | None = None
    ) -> ForeignMatrix:
        """Return a matrix; ``ids_from`` is the path of its ids."""
        label = f"{self.path}::{view}"
        check_matrix_shape(self.arrays[view].shape, label=label)
        float_type(self.arrays[view].dtype, label=label)
        rows = self.rows(view)
        return ForeignMatrix(
            view=view,
            raw=rows,
            layout=self.layout,
            ids=ids,
            ids_from=ids_from and f"{self.path}::{ids_from}",
            chunk_rows=rows.chunk_rows,
            columns=columns,
        )


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
    return tree.matrix(view, None if id_name is None else tree.texts(id_name), id_name or "")


def read_anndata(request: ForeignRequest, tree: ArrayTree) -> ForeignMatrix:
    """Open one dense matrix of an AnnData object: ``X``, ``obsm/…`` or ``layers/…``.

    ``obsm/X_pca`` may be written ``X_pca``. ``id_column`` names another column of ``obs``.
    """
    shapes = {name: tuple(a.shape) for name, a in tree.arrays.items() if _is_matrix(name)}
    view = request.view
    if view is not None and (f"obsm/{view}" in shapes or _is_group(tree, f"obsm/{view}")):
        view = f"obsm/{view}"
    if view not in shapes and _is_group(tree, f"{view}"):
        raise InputError(
            f"{request.path}::{view}: is sparse or a table; store it as a dense array "
            "(adata.X = adata.X.toarray())"
        )
    view = choose_view(replace(request, view=view), shapes)
    ids, ids_from = read_observation_ids(request, tree)
    columns = None
    if view == "X":
        name = f"var/{tree.attribute('var', '_index')}"
        columns = tree.texts(name) if name in tree.arrays else None
    return tree.matrix(view, ids, ids_from, columns)


def read_observation_ids(request: ForeignRequest, tree: ArrayTree) -> tuple[list[str] | None, str]:
    """Return the names of the observations, or another column of ``obs``, and their path."""
    label = f"{tree.path}::obs"
    if "obs" in tree.arrays:
        raise InputError(
            f"{label}: has the layout of AnnData before 0.7; write it with a newer one"
        )
    name = request.id_column or tree.attribute("obs", "_index")
    if not isinstance(name, str):
        return None, ""
    names = observation_columns(tree)
    if name not in names:
        raise InputError(
            f"{label}: has no column {name!r}; it has {', '.join(sorted(names)) or 'none'}"
        )
    path = f"obs/{name}"
    if path in tree.arrays:
        return tree.texts(path), path
    codes = f"{path}/codes"
    if codes in tree.arrays:
        tree.check_text_count(codes)
    values = read_column(tree, path) if codes in tree.arrays else None
    if values is None:
        raise InputError(
            f"{tree.path}::{path}: not a column of text or integers; name another (--id-column)"
        )
    missing = np.flatnonzero(tree.read(codes) < 0)
    if len(missing):
        raise InputError(
            f"{tree.path}::{path}: row {missing[0]} has no value; give every row an id"
        )
    return texts_of(values, label=f"{tree.path}::{path}"), path


def observation_columns(tree: ArrayTree) -> list[str]:
    """Return the names of the columns of ``obs``."""
    members = (name.split("/")[1] for name in tree.arrays if name.startswith("obs/"))
    return list(dict.fromkeys(members))


def read_column(tree: ArrayTree, path: str) -> NDArray[Any] | None:
    """Return a column as numbers or texts, NaN or empty where missing; None of other types."""
    array = tree.arrays.get(path)
    if array is not None:
        if array.ndim != 1 or array.dtype.kind not in NUMBERS + "SUOT":
            return None
        is_number = array.dtype.kind in NUMBERS
        return tree.read(path) if is_number else np.array(tree.texts(path), dtype=str)
    # of a category the codes, of a column with missing numbers the numbers and where they are
    is_coded = f"{path}/codes" in tree.arrays
    names = ("categories", "codes") if is_coded else ("values", "mask")
    values, places = (read_column(tree, f"{path}/{name}") for name in names)
    if values is None or places is None or places.dtype.kind != ("i" if is_coded else "b"):
        return None
    empty = "" if values.dtype.kind == "U" else np.nan
    if is_coded:
        if len(places) and not -1 <= places.min() <= places.max() < len(values):
            raise InputError(f"{tree.path}::{path}: has codes of no category; is the file damaged?")
        is_whole = not (places < 0).any()
        return values[places] if is_whole else np.append(values, empty)[places]
    if len(values) != len(places):
        raise InputError(
            f"{tree.path}::{path}: has {len(values)} values and {len(places)} marks of missing ones"
        )
    return np.where(places, empty, values) if places.any() else values


def _is_matrix(name: str) -> bool:
    """Return whether the path of an array is that of a dense matrix."""
    group, _, member = name.partition("/")
    return name == "X" or (group in ("obsm", "layers") and bool(member) and "/" not in member)


def _is_group(tree: ArrayTree, path: str) -> bool:
    """Return whether there is an array below a path."""
    return any(name.startswith(path.rstrip("/") + "/") for name in tree.arrays)
