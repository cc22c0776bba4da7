"""Program that reads a ``.mat`` file with scipy; run by ``matlab_files``.

scipy's reader can crash or ask for gigabytes on damaged files. In a process of its own that can
be ended. It is run as a file, so that it needs scipy and nothing of this package.
"""

import json
import os
import resource
import struct
import sys
import warnings
import zlib

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # its threads would count against the memory

from typing import NoReturn

import numpy as np
import scipy.io
from scipy.io.matlab import MatReadError, matfile_version

DAMAGED = 65  # exit code: scipy cannot read the file
# scipy's reader follows the numbers of a damaged file to types and sizes that there are not
# (KeyError, IndexError, TypeError, OverflowError, MemoryError), to texts of no encoding, to packed
# data that end early (zlib.error), and counts what it has read (AssertionError, ValueError).
SCIPY_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
    MatReadError,
    MemoryError,
    OSError,
    RuntimeError,
    SystemError,
    TypeError,
    ValueError,
    Warning,
    struct.error,
    zlib.error,
)


def main() -> None:
    """List the variables of ``path``, or write those named on stdin to an open file, as JSON."""
    memory_bytes, path = sys.argv[1:3]
    resource.setrlimit(resource.RLIMIT_AS, (int(memory_bytes), int(memory_bytes)))
    if len(sys.argv) > 3:
        found: object = write_values(path, json.load(sys.stdin), int(sys.argv[3]))
    else:
        found = list_variables(path)
    sys.stdout.write(json.dumps(found))


def refuse(error: Exception) -> NoReturn:
    """End with the code of a damaged file."""
    sys.stderr.write(f"{type(error).__name__}: {error}")
    sys.exit(DAMAGED)


def list_variables(path: str) -> "list[tuple[str, tuple[int, ...], str]] | None":
    """Return name, shape and class of every variable; None of a file in HDF5."""
    try:
        is_hdf5 = matfile_version(path)[0] == 2
        return None if is_hdf5 else scipy.io.whosmat(path)
    except SCIPY_ERRORS as error:
        refuse(error)


def write_values(path: str, names: list[str], output: int) -> tuple[tuple[int, ...], str]:
    """Write variables below each other, row by row; return their shape and type."""
    # scipy would give the real part of complex values with a warning
    warnings.simplefilter("error", np.exceptions.ComplexWarning)
    try:
        found = scipy.io.loadmat(path, variable_names=list(names), mat_dtype=True)
    except SCIPY_ERRORS as error:
        refuse(error)
    arrays = [found.get(name) for name in names]
    shapes = {array.shape[1:] for array in arrays if isinstance(array, np.ndarray) and array.ndim}
    if len(shapes) != 1 or not all(isinstance(array, np.ndarray) for array in arrays):
        refuse(ValueError("variables of other shapes than listed"))
    array = arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
    values = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    with os.fdopen(output, "wb") as file:
        values.tofile(file)
    return values.shape, values.dtype.str


if __name__ == "__main__":
    try:
        main()
    except MemoryError as failure:
        sys.stderr.write(repr(failure))
        sys.exit(DAMAGED)
