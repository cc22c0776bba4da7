"""Names for shapes and choices that several layers share; no logic."""

from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.floating[Any]]
IntArray = NDArray[np.integer[Any]]
BoolArray = NDArray[np.bool_]

MismatchPolicy = Literal["refuse", "intersect"]


@runtime_checkable
class Rows(Protocol):
    """Rows of one representation that can be read in slices, as often as wanted.

    It is what a store, a join of two stores and an array in memory have in common, so that
    the numerics need to know neither files nor joins.
    """

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and number of columns."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """Floating type in which the values are stored."""
        ...

    def read(self, start: int, stop: int) -> FloatArray:
        """Return rows ``start`` to ``stop`` (exclusive) as a new array."""
        ...

    def take(self, rows: IntArray) -> FloatArray:
        """Return the given rows; they are strictly increasing."""
        ...
