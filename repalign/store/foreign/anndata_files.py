"""Matrices in AnnData files (``.h5ad``): ``X``, ``obsm/…`` and ``layers/…``, dense.

The layout is read directly, as its specification describes it: a matrix is a dataset, the names
of the observations are the column of ``obs`` that its attribute ``_index`` names.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repalign.exceptions import InputError
from repalign.expansion import TEXT_BYTES, check_identities
from repalign.store.foreign.contents import (
    ForeignMatrix,
    ForeignRequest,
    check_matrix_shape,
    choose_view,
)
from repalign.store.foreign.hdf5.objects import (
    Hdf5Rows,
    check_dataset,
    member_names,
    open_file,
    open_member,
    read_values,
)
from repalign.store.foreign.hdf5.texts import read_texts, text_attribute
from repalign.store.format.hdf5 import h5py

MATRIX_GROUPS = ("obsm", "layers")


def read_anndata(request: ForeignRequest) -> ForeignMatrix:
    """Open one dense matrix of an AnnData file; the ids are the names of the observations.

    ``obsm/X_pca`` may be written ``X_pca``. ``id_column`` names another column of ``obs``.
    """
    label = str(request.path)
    with open_file(request.path) as file:
        matrices, sparse = _matrices(file, label)
        view = _view(request, matrices, sparse)
        check_matrix_shape(matrices[view].shape, label=f"{label}::{view}")
        ids, ids_from = _observation_ids(request, file)
        columns = _variable_names(request, file) if view == "X" else None
    raw = Hdf5Rows(request.path, view)
    return ForeignMatrix(
        view=view,
        raw=raw,
        chunk_rows=raw.chunk_rows,
        layout="AnnData",
        ids=ids,
        ids_from=ids_from,
        columns=columns,
    )


def read_observations(
    path: Path, *, id_column: str | None = None
) -> tuple[dict[str, NDArray[Any]], list[str] | None]:
    """Return the columns of ``obs``, without those of rare types, and the ids of the rows.

    Raises:
        InputError: there are no observations, or they cannot be read.
    """
    label = f"{path}::obs"
    with open_file(path) as file:
        ids, ids_from = _observation_ids(ForeignRequest(path, id_column=id_column), file)
        has_obs = "obs" in member_names(file, str(path))
        obs = open_member(file, "obs", label) if has_obs else None
        names = member_names(obs, label) if isinstance(obs, h5py.Group) else []
        if not names or "__categories" in names:
            raise InputError(f"{label}: is not there, or older than AnnData 0.8; write it again")
        columns = {
            name: _column_values(open_member(obs, name, f"{label}/{name}"), path=path)
            for name in names
            if f"{label}/{name}" != ids_from
        }
    return {name: values for name, values in columns.items() if values is not None}, ids


def _column_values(column: Any, *, path: Path) -> NDArray[Any] | None:
    """Return a column as numbers or texts, NaN or empty where missing; None of other types."""
    if isinstance(column, h5py.Dataset):
        if column.ndim != 1:
            return None
        if h5py.check_string_dtype(column.dtype) is not None:
            return np.array(read_texts(column, path=path), dtype=str)
        check_dataset(column, f"{path}::{column.name}")
        if column.dtype.kind not in "iufb":
            return None
        return read_values(column, (), f"{path}::{column.name}")
    # of a category the codes, of a column with missing numbers the numbers and where they are
    label = f"{path}::{column.name}"
    members = member_names(column, label) if isinstance(column, h5py.Group) else []
    is_coded = "codes" in members
    names = ("categories", "codes") if is_coded else ("values", "mask")
    if not set(names) <= set(members):
        return None
    parts = [open_member(column, name, f"{label}/{name}") for name in names]
    if not all(isinstance(part, h5py.Dataset) for part in parts):
        return None
    first, second = (_column_values(part, path=path) for part in parts)
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


def _matrices(file: Any, label: str) -> tuple[dict[str, Any], list[str]]:
    """Return the dense matrices by path, and the paths of sparse ones and tables."""
    dense: dict[str, Any] = {}
    other = []
    names = member_names(file, label)
    places = [(file, "X", "X")] if "X" in names else []
    for group_name in MATRIX_GROUPS:
        if group_name not in names:
            continue
        group = open_member(file, group_name, f"{label}::{group_name}")
        if not isinstance(group, h5py.Group):
            raise InputError(f"{label}::{group_name}: not a group of matrices; is it damaged?")
        members = member_names(group, f"{label}::{group_name}")
        places += [(group, name, f"{group_name}/{name}") for name in members]
    for group, name, path in places:
        member = open_member(group, name, f"{label}::{path}")
        if isinstance(member, h5py.Dataset):
            dense[path] = member
        else:
            other.append(path)
    return dense, other


def _view(request: ForeignRequest, matrices: dict[str, Any], sparse: list[str]) -> str:
    wanted = request.view
    if wanted is not None and f"obsm/{wanted}" in {*matrices, *sparse}:
        wanted = f"obsm/{wanted}"
    if wanted in sparse:
        raise InputError(
            f"{request.path}::{wanted}: is sparse or a table; store it as a dense array "
            "(adata.X = adata.X.toarray())"
        )
    request = ForeignRequest(request.path, view=wanted, id_column=request.id_column)
    return choose_view(request, {name: matrix.shape for name, matrix in matrices.items()})


def _observation_ids(request: ForeignRequest, file: Any) -> tuple[list[str] | None, str]:
    label = f"{request.path}::obs"
    if "obs" not in member_names(file, str(request.path)):
        return None, ""
    obs = open_member(file, "obs", label)
    if not isinstance(obs, h5py.Group):
        raise InputError(
            f"{label}: has the layout of AnnData before 0.7; write it with a newer one"
        )
    name = request.id_column or text_attribute(obs, "_index", path=request.path)
    if name is None:
        return None, ""
    names = member_names(obs, label)
    if name not in names:
        raise InputError(
            f"{label}: has no column {name!r}; it has {', '.join(sorted(names)) or 'none'}"
        )
    column = open_member(obs, name, f"{label}/{name}")
    return _column_texts(column, path=request.path), f"{label}/{name}"


def _variable_names(request: ForeignRequest, file: Any) -> list[str] | None:
    """Return the names of the columns of ``X``, where the file has them."""
    label = str(request.path)
    var = open_member(file, "var", label) if "var" in member_names(file, label) else None
    if not isinstance(var, h5py.Group):
        return None
    name = text_attribute(var, "_index", path=request.path)
    if name is None or name not in member_names(var, f"{label}::var"):
        return None
    column = open_member(var, name, f"{request.path}/{name}")
    return read_texts(column, path=request.path) if isinstance(column, h5py.Dataset) else None


def _column_texts(column: Any, *, path: Path) -> list[str]:
    """Return a column of ``obs`` as text: plain or categorical."""
    if isinstance(column, h5py.Dataset):
        return read_texts(column, path=path)
    label = f"{path}::{column.name.removeprefix('/')}"
    is_coded = isinstance(column, h5py.Group) and {"categories", "codes"} <= set(
        member_names(column, label)
    )
    if not is_coded or text_attribute(column, "encoding-type", path=path) != "categorical":
        raise InputError(f"{label}: is no column of text or integers; name another (--id-column)")
    categories = open_member(column, "categories", label)
    if not isinstance(categories, h5py.Dataset):
        raise InputError(f"{label}/categories: not a list of texts; is the file damaged?")
    names = read_texts(categories, path=path)
    coded = open_member(column, "codes", label)
    if not isinstance(coded, h5py.Dataset) or coded.ndim != 1 or coded.dtype.kind not in "iu":
        raise InputError(f"{label}/codes: is no list of integers; is the file damaged?")
    check_dataset(coded, f"{label}/codes")
    check_identities(
        int(coded.size) * (TEXT_BYTES + coded.dtype.itemsize),
        label=f"{label}/codes",
        stored=path.stat().st_size,
    )
    codes = read_values(coded, (), f"{label}/codes")
    if len(codes) and (codes.min() < 0 or codes.max() >= len(names)):
        row = int(np.flatnonzero((codes < 0) | (codes >= len(names)))[0])
        raise InputError(f"{label}: row {row} has no value; give every row an id")
    return [names[code] for code in codes.tolist()]
