"""Program that reads a ``.mat`` file with scipy; run by ``matlab_files``.

scipy's reader can crash or ask for gigabytes on damaged files. In a process of its own that can
be ended. It is run as a file, so that it needs scipy and nothing of this package.
"""

import json
import os
import resource
import sys
import warnings

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # its threads would count against the memory

import numpy as np
import scipy.io
from scipy.io.matlab import matfile_version


def main() -> None:
    """List the variables of ``path``, or write those named on stdin to an open file, as JSON."""
    memory_bytes, path = sys.argv[1:3]
    resource.setrlimit(resource.RLIMIT_AS, (int(memory_bytes), int(memory_bytes)))
    if len(sys.argv) > 3:
        found: object = write_values(path, json.load(sys.stdin), int(sys.argv[3]))
    else:
        is_hdf5 = matfile_version(path)[0] == 2
        found = None if is_hdf5 else scipy.io.whosmat(path)
    sys.stdout.write(json.dumps(found))


def write_values(path: str, names: list[str], output: int) -> tuple[tuple[int, ...], str]:
    """Write variables below each other, row by row; return their shape and type."""
    # scipy would give the real part of complex values with a warning
    warnings.simplefilter("error", np.exceptions.ComplexWarning)
    found = scipy.io.loadmat(path, variable_names=list(names), mat_dtype=True)
    arrays = [found[name] for name in names]
    array = arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
    values = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    with os.fdopen(output, "wb") as file:
        values.tofile(file)
    return values.shape, values.dtype.str


if __name__ == "__main__":
    main()
