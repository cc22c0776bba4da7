"""h5py, imported with the search for HDF5 filter plugins switched off.

A file may name any filter, and HDF5 would load a shared library to serve it.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from repalign.exceptions import InputError, RepalignError, reading

_SEARCH = "HDF5_PLUGIN_PRELOAD"
_OFF = "::"

if "h5py" in sys.modules or _SEARCH in os.environ:
    import h5py
else:
    # HDF5 reads the variable once, at the first question about plugins: nothing is left behind in
    # the environment, which programs started from here would inherit.
    os.environ[_SEARCH] = _OFF
    try:
        import h5py

        h5py.h5pl.size()
    finally:
        del os.environ[_SEARCH]

__all__ = ["HDF5_ERRORS", "check_stored_inside", "h5py", "reading_hdf5"]

# h5py raises KeyError for objects that cannot be opened, TypeError for types that numpy does not
# have, ValueError for names and types of no form, OverflowError and MemoryError for sizes that
# nothing has, RuntimeError and OSError for the rest.
HDF5_ERRORS: tuple[type[Exception], ...] = (
    KeyError,
    MemoryError,
    OSError,
    OverflowError,
    RuntimeError,
    TypeError,
    ValueError,
)


@contextmanager
def reading_hdf5(name: object, *, failure: type[RepalignError] = InputError) -> Iterator[None]:
    """Map what h5py raises for a damaged file, as ``reading`` does."""
    with reading(
        name, *HDF5_ERRORS, problem="HDF5 cannot read it, is it damaged?", failure=failure
    ):
        yield


def check_stored_inside(
    dataset: Any, name: object, *, failure: type[RepalignError] = InputError
) -> Any:
    """Check that the values of a dataset lie in its file; return how it was created.

    Raises:
        InputError: they lie in other files, which are not read; or ``failure``.
    """
    with reading_hdf5(name, failure=failure):
        properties = dataset.id.get_create_plist()
        n_external, layout = properties.get_external_count(), properties.get_layout()
    if n_external:
        raise failure(f"{name}: has external storage; copy the data into the file itself")
    if layout == h5py.h5d.VIRTUAL:
        raise failure(f"{name}: is a virtual dataset; copy the data into the file itself")
    return properties
