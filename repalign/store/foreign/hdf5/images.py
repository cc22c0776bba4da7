"""Images in one dataset of a foreign HDF5 file."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repalign.exceptions import InputError
from repalign.store.foreign.hdf5.objects import (
    check_dataset,
    list_datasets,
    open_file,
    read_values,
)

_NAMES = ("images", "x", "X", "data")


class Hdf5Images:
    """Rows of an image dataset, read one by one and from several threads at once.

    Args:
        path: the file.
        name: path of the dataset in it; by default the one that is named like images, or the
            only one.

    Raises:
        InputError: no such dataset, or values outside the file or behind unknown filters.
    """

    def __init__(self, path: Path, name: str | None = None) -> None:
        self._label = str(path)
        self._lock = threading.Lock()
        found = list_datasets(open_file(path), self._label)
        candidates = [name] if name else [n for n in _NAMES if n in found]
        if not candidates and len(found) == 1:
            candidates = list(found)
        if not candidates or candidates[0] not in found:
            raise InputError(
                f"no dataset {name or 'of images'} in {path.name}; found "
                f"{', '.join(sorted(found)[:8]) or 'none'}: choose one with --column"
            )
        self.name = candidates[0]
        self._dataset = found[self.name]
        check_dataset(self._dataset, f"{path}::{self.name}")
        self.shape: tuple[int, ...] = self._dataset.shape
        self.dtype: np.dtype[Any] = self._dataset.dtype

    def __getitem__(self, row: int | slice) -> NDArray[Any]:
        with self._lock:
            return read_values(self._dataset, row, self._label)
