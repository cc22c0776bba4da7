"""Arrays in MATLAB ``.mat`` files before 7.3, as thingsvision writes them, read by scipy."""

import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repalign.damage_errors import SCIPY_ERRORS
from repalign.exceptions import InputError, reading
from repalign.expansion import check_copy
from repalign.rows import ArrayRows
from repalign.store.formats.contents import (
    ForeignMatrix,
    ForeignRequest,
    check_matrix_shape,
    choose_view,
)

NUMBERS = {"double", "single", "logical"} | {
    f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)
}
LARGEST_NUMBER = 8  # bytes
ROWS_VIEW = "features"
_UNREADABLE = "scipy cannot read it, is it damaged?"


def read_matlab(request: ForeignRequest) -> ForeignMatrix:
    """Open one matrix of a ``.mat`` file, or the file that has one variable per row.

    In the second kind, which thingsvision writes, the names of the variables are the ids.
    """
    path = request.path
    shapes = _list_variables(path)
    is_row_each = len(shapes) > 1 and all(
        len(shape) == 2 and shape[0] == 1 for shape in shapes.values()
    )
    if is_row_each and request.view is None and request.id_column is None:
        if len(set(shapes.values())) > 1:
            raise InputError(
                f"{path}: has one variable per row, of different lengths; expected one length"
            )
        return ForeignMatrix(
            view=ROWS_VIEW,
            raw=ArrayRows(np.concatenate(_load(path, shapes, label=str(path)))),
            layout="MATLAB file, one variable per row",
            ids=list(shapes),
            ids_from=f"{path} (names of the variables)",
        )
    view = choose_view(request, shapes)
    label = f"{path}::{view}"
    check_matrix_shape(shapes[view], label=label)
    (values,) = _load(path, {view: shapes[view]}, label=label)
    return ForeignMatrix(view=view, raw=ArrayRows(values), layout="MATLAB file")


def _list_variables(path: Path) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the arrays of numbers, by name."""
    import scipy.io

    with reading(path, *SCIPY_ERRORS, scipy.io.matlab.MatReadError, problem=_UNREADABLE):
        is_hdf5 = scipy.io.matlab.matfile_version(path)[0] == 2
        variables = [] if is_hdf5 else scipy.io.whosmat(path)
    if is_hdf5:
        raise InputError(f"{path}: is a MATLAB file of version 7.3; save it with -v7 or as .npy")
    names = [name for name, _, _ in variables]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise InputError(f"{path}: has two variables {repeated!r}; save it again")
    return {name: tuple(shape) for name, shape, kind in variables if kind in NUMBERS}


def _load(path: Path, shapes: dict[str, tuple[int, ...]], *, label: str) -> list[NDArray[Any]]:
    """Return variables of numbers, which are expanded in memory."""
    import scipy.io

    check_copy(path, LARGEST_NUMBER * sum(map(math.prod, shapes.values())), label=label)
    with (
        reading(label, *SCIPY_ERRORS, scipy.io.matlab.MatReadError, problem=_UNREADABLE),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("error", np.exceptions.ComplexWarning)
        content = scipy.io.loadmat(path, variable_names=list(shapes), mat_dtype=True)
    for name, shape in shapes.items():
        if np.shape(content.get(name)) != shape:
            raise InputError(f"{path}::{name}: is not as the file lists it; is it damaged?")
    return [content[name] for name in shapes]
