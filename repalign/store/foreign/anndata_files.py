"""AnnData objects in HDF5 (``.h5ad``) and zarr: ``X``, ``obsm/…`` and ``layers/…``, dense.

The layout is read as its specification describes it: a matrix is an array, the names of the
observations are the column of ``obs`` that its attribute ``_index`` names.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repalign.exceptions import InputError
from repalign.store.foreign.array_trees import (
    NUMBERS,
    ArrayTree,
    check_text_count,
    read_texts,
    tree_matrix,
)
from repalign.store.foreign.contents import ForeignMatrix, ForeignRequest, choose_view, texts_of
from repalign.store.foreign.hdf5_files import Hdf5Tree

MATRIX_GROUPS = ("obsm", "layers")


def read_h5ad(request: ForeignRequest) -> ForeignMatrix:
    """Open one dense matrix of an AnnData file; the ids are the names of the observations."""
    with Hdf5Tree(request.path, layout="AnnData") as tree:
        return read_anndata(request, tree)


def read_anndata(request: ForeignRequest, tree: ArrayTree) -> ForeignMatrix:
    """Open one dense matrix of an AnnData object.

    ``obsm/X_pca`` may be written ``X_pca``. ``id_column`` names another column of ``obs``.
    """
    label = str(request.path)
    matrices = {name: array for name, array in tree.arrays.items() if _is_matrix(name)}
    view = request.view
    if view is not None and any(_is_below(name, f"obsm/{view}") for name in tree.arrays):
        view = f"obsm/{view}"
    if view not in matrices and any(_is_below(name, f"{view}/") for name in tree.arrays):
        raise InputError(
            f"{label}::{view}: is sparse or a table; store it as a dense array "
            "(adata.X = adata.X.toarray())"
        )
    view = choose_view(
        replace(request, view=view), {name: tuple(a.shape) for name, a in matrices.items()}
    )
    ids, ids_from = _observation_ids(request, tree)
    columns = _index_texts(tree, "var") if view == "X" else None
    return tree_matrix(tree, view, ids=ids, ids_from=ids_from, columns=columns)


def read_observations(
    path: Path, *, id_column: str | None = None
) -> tuple[dict[str, NDArray[Any]], list[str] | None]:
    """Return the columns of ``obs`` of a file, without those of rare types, and the ids.

    Raises:
        InputError: there are no observations, or they cannot be read.
    """
    with Hdf5Tree(path, layout="AnnData") as tree:
        ids, ids_from = _observation_ids(ForeignRequest(path, id_column=id_column), tree)
        names = _column_names(tree)
        if not names or "__categories" in names:
            raise InputError(
                f"{path}::obs: is not there, or older than AnnData 0.8; write it again"
            )
        columns = {
            name: _read_column(tree, f"obs/{name}") for name in names if f"obs/{name}" != ids_from
        }
    return {name: values for name, values in columns.items() if values is not None}, ids


def _is_matrix(name: str) -> bool:
    """Return whether the path of an array is that of a dense matrix."""
    group, _, member = name.partition("/")
    return name == "X" or (group in MATRIX_GROUPS and bool(member) and "/" not in member)


def _is_below(name: str, path: str) -> bool:
    return name == path or name.startswith(path.rstrip("/") + "/")


def _column_names(tree: ArrayTree) -> list[str]:
    """Return the names of the columns of ``obs``."""
    members = (name.split("/")[1] for name in tree.arrays if name.startswith("obs/"))
    return list(dict.fromkeys(members))


def _observation_ids(request: ForeignRequest, tree: ArrayTree) -> tuple[list[str] | None, str]:
    """Return the names of the observations, or another column of ``obs``, and their path."""
    label = f"{tree.path}::obs"
    if "obs" in tree.arrays:
        raise InputError(
            f"{label}: has the layout of AnnData before 0.7; write it with a newer one"
        )
    name = request.id_column or tree.attribute("obs", "_index")
    if not isinstance(name, str):
        return None, ""
    names = _column_names(tree)
    if name not in names:
        raise InputError(
            f"{label}: has no column {name!r}; it has {', '.join(sorted(names)) or 'none'}"
        )
    path = f"obs/{name}"
    if path in tree.arrays:
        return read_texts(tree, path), path
    is_coded = f"{path}/codes" in tree.arrays
    if is_coded:
        check_text_count(tree, f"{path}/codes")
    values = _read_column(tree, path) if is_coded else None
    if values is None:
        raise InputError(
            f"{tree.path}::{path}: not a column of text or integers; name another (--id-column)"
        )
    missing = np.flatnonzero(tree.read(f"{path}/codes") < 0)
    if len(missing):
        raise InputError(
            f"{tree.path}::{path}: row {missing[0]} has no value; give every row an id"
        )
    return texts_of(values, label=f"{tree.path}::{path}"), path


def _index_texts(tree: ArrayTree, group: str) -> list[str] | None:
    """Return the index of a table, where it is there and plain text."""
    name = tree.attribute(group, "_index")
    path = f"{group}/{name}"
    return read_texts(tree, path) if isinstance(name, str) and path in tree.arrays else None


def _read_column(tree: ArrayTree, path: str) -> NDArray[Any] | None:
    """Return a column as numbers or texts, NaN or empty where missing; None of other types."""
    label = f"{tree.path}::{path}"
    array = tree.arrays.get(path)
    if array is not None:
        if array.ndim != 1 or array.dtype.kind not in NUMBERS + "SUOT":
            return None
        if array.dtype.kind not in NUMBERS:
            return np.array(read_texts(tree, path), dtype=str)
        return tree.read(path)
    # of a category the codes, of a column with missing numbers the numbers and where they are
    is_coded = f"{path}/codes" in tree.arrays
    names = ("categories", "codes") if is_coded else ("values", "mask")
    parts = [_read_column(tree, f"{path}/{name}") for name in names]
    first, second = parts
    if first is None or second is None or second.dtype.kind != ("i" if is_coded else "b"):
        return None
    if not is_coded and len(first) != len(second):
        raise InputError(
            f"{label}: has {len(first)} values and {len(second)} marks of missing ones"
        )
    if is_coded and len(second) and not -1 <= second.min() <= second.max() < len(first):
        raise InputError(f"{label}: has codes of no category; is the file damaged?")
    missing = second < 0 if is_coded else second
    if not missing.any():
        return first[second] if is_coded else first
    empty = "" if first.dtype.kind == "U" else np.nan
    if not is_coded:
        return np.where(missing, empty, first)
    return np.append(first, empty)[second]  # the code of a missing one is -1
