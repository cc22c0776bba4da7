"""Matrices in foreign HDF5 files (``.h5``, ``.hdf5``), such as thingsvision writes."""

from repalign.exceptions import InputError
from repalign.store.foreign.contents import (
    ID_NAMES,
    ForeignMatrix,
    ForeignRequest,
    check_matrix_shape,
    choose_view,
)
from repalign.store.foreign.hdf5.objects import (
    Hdf5Rows,
    list_datasets,
    open_file,
)
from repalign.store.foreign.hdf5.texts import read_texts
from repalign.store.rows.floats import float_type

NUMBERS = "fiub"


def read_hdf5(request: ForeignRequest) -> ForeignMatrix:
    """Open one matrix of an HDF5 file; a view is the path of a dataset.

    Ids are the dataset ``id_column``, or one named ``id``, ``ids`` or ``sample_id``.
    """
    label = str(request.path)
    with open_file(request.path) as file:
        found = list_datasets(file, label)
        names = ID_NAMES if request.id_column is None else (request.id_column,)
        id_name = next((name for name in names if name in found), None)
        if id_name is None and request.id_column is not None:
            raise InputError(
                f"{label}: has no dataset {request.id_column!r} of ids; it has {', '.join(found)}"
            )
        arrays = {
            name: dataset.shape
            for name, dataset in found.items()
            if name != id_name and dataset.dtype.kind in NUMBERS and dataset.shape
        }
        view = choose_view(request, arrays)
        check_matrix_shape(found[view].shape, label=f"{label}::{view}")
        float_type(found[view].dtype, label=f"{label}::{view}")
        ids = None if id_name is None else read_texts(found[id_name], path=request.path)
    raw = Hdf5Rows(request.path, view)
    return ForeignMatrix(
        view=view,
        raw=raw,
        chunk_rows=raw.chunk_rows,
        layout="HDF5 dataset",
        ids=ids,
        ids_from="" if id_name is None else f"{label}::{id_name}",
    )
