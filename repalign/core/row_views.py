"""Rows seen through something: only some of them, or each mapped to another space."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Integer

from repalign.aliases import Rows
from repalign.core.maps import AffineMap


@dataclass(frozen=True, eq=False)
class RowSubset:
    """Some of the rows, in ascending order; nothing is copied until it is read."""

    rows: Rows
    chosen: Integer[np.ndarray, " m"]

    @property
    def shape(self) -> tuple[int, int]:
        """Number of chosen rows and number of columns."""
        return int(self.chosen.size), self.rows.shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Floating type in which the values are stored."""
        return self.rows.dtype

    def read(self, start: int, stop: int) -> Float[np.ndarray, "rows columns"]:
        """Return chosen rows ``start`` to ``stop`` (exclusive)."""
        return self.rows.take(self.chosen[start:stop])

    def take(self, rows: Integer[np.ndarray, " rows"]) -> Float[np.ndarray, "rows columns"]:
        """Return the given of the chosen rows."""
        return self.rows.take(self.chosen[rows])


@dataclass(frozen=True, eq=False)
class MappedRows:
    """Every row sent through a map when it is read."""

    rows: Rows
    map: AffineMap

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and number of columns after the map."""
        return self.rows.shape[0], self.map.target_dim

    @property
    def dtype(self) -> np.dtype[Any]:
        """Floating type of the rows that are mapped."""
        return self.rows.dtype

    def read(self, start: int, stop: int) -> Float[np.ndarray, "rows columns"]:
        """Return mapped rows ``start`` to ``stop`` (exclusive)."""
        return self.map.apply(self.rows.read(start, stop))

    def take(self, rows: Integer[np.ndarray, " rows"]) -> Float[np.ndarray, "rows columns"]:
        """Return the given rows, mapped."""
        return self.map.apply(self.rows.take(rows))
