"""Arrays in MATLAB ``.mat`` files of version 4 to 7, as thingsvision writes them."""

import zlib
from typing import Any

import numpy as np

from repalign.exceptions import InputError
from repalign.store.array_rows import ArrayRows
from repalign.store.foreign.contents import (
    ForeignMatrix,
    ForeignRequest,
    check_matrix_shape,
    choose_view,
)

NUMBERS = {
    "double", "single", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
    "logical",
}  # fmt: skip
MAX_VALUES = 2**31  # the format is read whole; it cannot hold larger arrays itself
ROWS_VIEW = "features"
DAMAGED = (ValueError, TypeError, KeyError, IndexError, OSError, EOFError, MemoryError, zlib.error)


def read_matlab(request: ForeignRequest) -> ForeignMatrix:
    """Open one matrix of a ``.mat`` file, or the file that has one variable per row.

    In the second kind, which thingsvision writes, the names of the variables are the ids.
    """
    shapes = _shapes(request)
    rows = {name: shape for name, shape in shapes.items() if len(shape) == 2 and shape[0] == 1}
    if request.view is None and len(rows) > 1 and len(rows) == len(shapes):
        return _read_variable_per_row(request, list(rows))
    view = choose_view(request, shapes)
    label = f"{request.path}::{view}"
    check_matrix_shape(shapes[view], label=label)
    found = _load(request, [view])
    return ForeignMatrix(view=view, raw=ArrayRows(found[view]), layout="MATLAB file")


def _read_variable_per_row(request: ForeignRequest, names: list[str]) -> ForeignMatrix:
    found = _load(request, names)
    widths = {found[name].shape for name in names}
    if len(widths) > 1:
        raise InputError(
            f"{request.path}: has one variable per row, of different lengths; expected one length"
        )
    values = np.concatenate([found[name] for name in names])
    check_matrix_shape(values.shape, label=str(request.path))
    return ForeignMatrix(
        view=ROWS_VIEW,
        raw=ArrayRows(values),
        layout="MATLAB file, one variable per row",
        ids=names,
        ids_from=f"{request.path} (names of the variables)",
    )


def _shapes(request: ForeignRequest) -> dict[str, tuple[int, ...]]:
    """Return the shapes of all arrays of numbers, without loading them."""
    import scipy.io

    found = _guarded(request, lambda: scipy.io.whosmat(request.path))
    shapes = {name: tuple(shape) for name, shape, kind in found if kind in NUMBERS}
    n_values = sum(int(np.prod(shape, dtype=object)) for shape in shapes.values())
    if n_values > MAX_VALUES:
        raise InputError(
            f"{request.path}: declares {n_values} values; at most {MAX_VALUES} are read from a "
            "MATLAB file, save larger arrays as .npy"
        )
    return shapes


def _load(request: ForeignRequest, names: list[str]) -> dict[str, Any]:
    import scipy.io

    def load() -> dict[str, Any]:
        found = scipy.io.loadmat(request.path, variable_names=names, mat_dtype=False)
        return {name: found[name] for name in names}

    return _guarded(request, load)


def _guarded(request: ForeignRequest, action: Any) -> Any:
    """Run a reader of scipy and say in one line what is wrong with the file."""
    from scipy.io.matlab import MatReadError

    try:
        return action()
    except NotImplementedError as error:
        raise InputError(
            f"{request.path}: is a MATLAB file of version 7.3; save it with -v7 or as .npy"
        ) from error
    except (*DAMAGED, MatReadError) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise InputError(f"{request.path}: is no readable MATLAB file ({reason})") from error
