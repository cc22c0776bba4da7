"""Arrays in MATLAB ``.mat`` files before 7.3, as thingsvision writes them.

scipy reads them, in a process of its own with a limit of time and memory, into a temporary file.
"""

import math
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from repalign.exceptions import InputError
from repalign.expansion import check_copy
from repalign.store.foreign.contents import (
    ForeignMatrix,
    ForeignRequest,
    check_matrix_shape,
    choose_view,
)
from repalign.store.foreign.separate_process import TIME_LIMIT, run_apart
from repalign.store.rows.disk_space import check_temporary_space
from repalign.store.rows.file import FileRows
from repalign.store.rows.floats import float_type

PROGRAM = Path(__file__).with_name("matlab_process.py")
NUMBERS = {"double", "single", "logical"} | {
    f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)
}
LARGEST_NUMBER = 8  # bytes
BYTES_A_SECOND = 2**25  # that scipy expands at the least
PROCESS_BYTES = 2**31  # that Python and scipy map before they read anything
COPIES = 4  # of the values, expanded and turned from columns into rows
ROWS_VIEW = "features"

Shape = tuple[int, ...]


def read_matlab(request: ForeignRequest) -> ForeignMatrix:
    """Open one matrix of a ``.mat`` file, or the file that has one variable per row.

    In the second kind, which thingsvision writes, the names of the variables are the ids.
    """
    shapes = _list_variables(request.path)
    is_row_each = len(shapes) > 1 and all(
        len(shape) == 2 and shape[0] == 1 for shape in shapes.values()
    )
    if is_row_each and request.view is None and request.id_column is None:
        return _variable_per_row(request, shapes)
    view = choose_view(request, shapes)
    check_matrix_shape(shapes[view], label=f"{request.path}::{view}")
    return ForeignMatrix(
        view=view, raw=_open_values(request.path, [view], shapes), layout="MATLAB file"
    )


def _variable_per_row(request: ForeignRequest, shapes: Mapping[str, Shape]) -> ForeignMatrix:
    if len(set(shapes.values())) > 1:
        raise InputError(
            f"{request.path}: has one variable per row, of different lengths; expected one length"
        )
    return ForeignMatrix(
        view=ROWS_VIEW,
        raw=_open_values(request.path, list(shapes), shapes),
        layout="MATLAB file, one variable per row",
        ids=list(shapes),
        ids_from=f"{request.path} (names of the variables)",
    )


def _list_variables(path: Path) -> dict[str, Shape]:
    """Return the shapes of the arrays of numbers, by name."""
    found = run_apart(
        PROGRAM,
        [str(path)],
        label=str(path),
        library="scipy",
        memory_bytes=PROCESS_BYTES + COPIES * path.stat().st_size,
        time_limit=_time_limit(path.stat().st_size),
    )
    if found is None:
        raise InputError(f"{path}: is a MATLAB file of version 7.3; save it with -v7 or as .npy")
    names = [name for name, _, _ in found]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise InputError(f"{path}: has two variables {repeated!r}; save it again")
    return {name: tuple(shape) for name, shape, kind in found if kind in NUMBERS}


def _open_values(path: Path, names: Sequence[str], shapes: Mapping[str, Shape]) -> FileRows:
    """Copy variables of numbers, one below the other, to a temporary file."""
    label = f"{path}::{names[0]}" if len(names) == 1 else str(path)
    n_bytes = LARGEST_NUMBER * sum(math.prod(shapes[name]) for name in names)
    check_copy(path, n_bytes, label=label)
    check_temporary_space(n_bytes, label=label)
    with tempfile.TemporaryFile(prefix="repalign-") as file:
        shape, kind = run_apart(
            PROGRAM,
            [str(path)],
            label=label,
            library="scipy",
            memory_bytes=PROCESS_BYTES + COPIES * (n_bytes + path.stat().st_size),
            time_limit=_time_limit(n_bytes),
            names=names,
            output=file.fileno(),
        )
        float_type(np.dtype(kind), label=label)
        return FileRows(
            os.dup(file.fileno()),
            label=label,
            shape=check_matrix_shape(shape, label=label),
            dtype=np.dtype(kind),
        )


def _time_limit(n_bytes: int) -> float:
    return TIME_LIMIT + n_bytes / BYTES_A_SECOND
