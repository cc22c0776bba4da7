"""Rows of an array in memory."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from repalign.aliases import IntArray


class RawRows(Protocol):
    """Rows of any number type that can be read in slices; what foreign files are made of."""

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and number of columns."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type in which the values are kept."""
        ...

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Return rows ``start`` to ``stop`` (exclusive) as a new array."""
        ...

    def take(self, rows: IntArray) -> NDArray[Any]:
        """Return the given rows; they are strictly increasing."""
        ...


class ArrayRows:
    """Rows of a two-dimensional array; the array is not copied and must not be changed."""

    def __init__(self, array: NDArray[Any]) -> None:
        self._array = array
        self.shape: tuple[int, int] = (int(array.shape[0]), int(array.shape[1]))
        self.dtype: np.dtype[Any] = array.dtype

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Return rows ``start`` to ``stop`` (exclusive) as a new array."""
        return np.array(self._array[start:stop], order="C")

    def take(self, rows: IntArray) -> NDArray[Any]:
        """Return the given rows; they are strictly increasing."""
        return np.ascontiguousarray(self._array[rows])
