"""Rows of an array in memory."""

import mmap
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repalign.aliases import IntArray


@dataclass(frozen=True, eq=False)
class ArrayRows:
    """Rows of a two-dimensional array or memory map, read without a copy of the whole."""

    values: NDArray[Any]

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and number of columns."""
        return int(self.values.shape[0]), int(self.values.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type in which the values are stored."""
        return self.values.dtype

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Return rows ``start`` to ``stop`` (exclusive) as a new array."""
        block = np.array(self.values[start:stop], order="C")
        release_pages(self.values)
        return block

    def take(self, rows: IntArray) -> NDArray[Any]:
        """Return the given rows as a new array."""
        block = np.ascontiguousarray(self.values[rows])
        release_pages(self.values)
        return block


def release_pages(values: NDArray[Any]) -> None:
    """Let go of the pages of a read-only memory map, which else count as memory of the process.

    The pages stay in the file cache, so that reading them again is cheap. A map that can be
    written is left alone: for a private one this would throw the changes away.
    """
    buffer = values.base
    if isinstance(buffer, mmap.mmap) and getattr(values, "mode", None) == "r":
        buffer.madvise(mmap.MADV_DONTNEED)
