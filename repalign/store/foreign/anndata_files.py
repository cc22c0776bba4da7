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
    open_file,
    open_member,
    told_as_input_error,
)
from repalign.store.foreign.hdf5.texts import read_texts, text_attribute
from repalign.store.format.hdf5 import h5py

MATRIX_GROUPS = ("obsm", "layers")


def read_anndata(request: ForeignRequest) -> ForeignMatrix:
    """Open one dense matrix of an AnnData file; the ids are the names of the observations.

    ``obsm/X_pca`` may be written ``X_pca``. ``id_column`` names another column of ``obs``.
    """
    label = str(request.path)
    with open_file(request.path) as file, told_as_input_error(label):
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
    with open_file(path) as file, told_as_input_error(label):
        ids, ids_from = _observation_ids(ForeignRequest(path, id_column=id_column), file)
        obs = open_member(file, "obs", label) if "obs" in file else {}
        if not obs or "__categories" in obs:
            raise InputError(f"{label}: is not there, or older than AnnData 0.8; write it again")
        columns = {
            name: _column_values(open_member(obs, name, f"{label}/{name}"), path=path)
            for name in obs
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
        return column[()] if column.dtype.kind in "iufb" else None
    # of a category the codes, of a column with missing numbers the numbers and where they are
    names = ("categories", "codes") if "codes" in column else ("values", "mask")
    if not set(names) <= set(column):
        return None
    label = f"{path}::{column.name}"
    first, second = (
        _column_values(open_member(column, name, f"{label}/{name}"), path=path) for name in names
    )
    if first is None or second is None or second.dtype.kind not in "ib":
        return None
    missing = second < 0 if "codes" in column else second
    values = first[second] if "codes" in column else first
    if not missing.any():
        return values
    return np.where(missing, "" if values.dtype.kind == "U" else np.nan, values)


def _matrices(file: Any, label: str) -> tuple[dict[str, Any], list[str]]:
    """Return the dense matrices by path, and the paths of sparse ones and tables."""
    dense: dict[str, Any] = {}
    other = []
    places = [(file, "X", "X")] if "X" in file else []
    for group_name in MATRIX_GROUPS:
        if group_name in file:
            group = open_member(file, group_name, f"{label}::{group_name}")
            places += [(group, name, f"{group_name}/{name}") for name in group]
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
    if "obs" not in file:
        return None, ""
    obs = open_member(file, "obs", label)
    if not isinstance(obs, h5py.Group):
        raise InputError(
            f"{label}: has the layout of AnnData before 0.7; write it with a newer one"
        )
    name = request.id_column or text_attribute(obs, "_index", path=request.path)
    if name is None:
        return None, ""
    if name not in obs:
        raise InputError(
            f"{label}: has no column {name!r}; it has {', '.join(sorted(obs)) or 'none'}"
        )
    column = open_member(obs, name, f"{label}/{name}")
    return _column_texts(column, path=request.path), f"{label}/{name}"


def _variable_names(request: ForeignRequest, file: Any) -> list[str] | None:
    """Return the names of the columns of ``X``, where the file has them."""
    var = open_member(file, "var", str(request.path)) if "var" in file else None
    if not isinstance(var, h5py.Group):
        return None
    name = text_attribute(var, "_index", path=request.path)
    if name is None or name not in var:
        return None
    column = open_member(var, name, f"{request.path}/{name}")
    return read_texts(column, path=request.path) if isinstance(column, h5py.Dataset) else None


def _column_texts(column: Any, *, path: Path) -> list[str]:
    """Return a column of ``obs`` as text: plain or categorical."""
    if isinstance(column, h5py.Dataset):
        return read_texts(column, path=path)
    label = f"{path}::{column.name.removeprefix('/')}"
    if text_attribute(column, "encoding-type", path=path) != "categorical":
        raise InputError(f"{label}: is no column of text or integers; name another (--id-column)")
    names = read_texts(open_member(column, "categories", label), path=path)
    coded = open_member(column, "codes", label)
    if not isinstance(coded, h5py.Dataset) or coded.ndim != 1 or coded.dtype.kind not in "iu":
        raise InputError(f"{label}/codes: is no list of integers; is the file damaged?")
    check_dataset(coded, f"{label}/codes")
    check_identities(
        int(coded.size) * (TEXT_BYTES + coded.dtype.itemsize),
        label=f"{label}/codes",
        stored=path.stat().st_size,
    )
    codes = coded[()]
    if len(codes) and (codes.min() < 0 or codes.max() >= len(names)):
        row = int(np.flatnonzero((codes < 0) | (codes >= len(names)))[0])
        raise InputError(f"{label}: row {row} has no value; give every row an id")
    return [names[code] for code in codes.tolist()]
