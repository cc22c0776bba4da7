"""Rows on their way to disk: checked, cast to the stored type, and cut into shards."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from repalign.aliases import FloatArray
from repalign.exceptions import InputError
from repalign.store.format.layout import ViewInfo
from repalign.store.joining.index import RowIndex, concatenate_index
from repalign.store.rows.floats import is_all_finite, unmasked


class RowBuffer:
    """Collects rows of all views until there are enough for a shard.

    Args:
        views: the representations.
        capacity: rows of one shard.
    """

    def __init__(self, views: Sequence[ViewInfo], capacity: int) -> None:
        self._views = views
        self.capacity = capacity
        self._arrays: dict[str, NDArray[Any]] = {}
        self._index: list[RowIndex] = []
        self.n_rows = 0

    @property
    def room(self) -> int:
        """Rows that still fit."""
        return self.capacity - self.n_rows

    def append(self, arrays: Mapping[str, FloatArray], index: RowIndex) -> None:
        """Add checked rows, at most as many as fit; they are copied."""
        for view in self._views:
            if view.name not in self._arrays:
                shape = (self.capacity, view.dim)
                self._arrays[view.name] = np.empty(shape, dtype=view.column.dtype)
            start, stop = self.n_rows, self.n_rows + len(index)
            target = self._arrays[view.name][start:stop]
            cast_rows(arrays[view.name], view, out=target)
        self._index.append(index)
        self.n_rows += len(index)

    def take_all(self) -> tuple[dict[str, FloatArray], RowIndex]:
        """Hand over the rows and start anew; the arrays are reused by the next append."""
        rows = {name: values[: self.n_rows] for name, values in self._arrays.items()}
        index = concatenate_index(self._index)
        self._index, self.n_rows = [], 0
        return rows, index


def check_rows(
    arrays: Mapping[str, ArrayLike], index: RowIndex | None, views: Sequence[ViewInfo]
) -> dict[str, FloatArray]:
    """Return the arrays of all views after checking names, shapes and types.

    Raises:
        InputError: not exactly the views of the store, other shapes, or no floating type.
    """
    names = [view.name for view in views]
    if set(arrays) != set(names):
        got = ", ".join(sorted(arrays)) or "none"
        raise InputError(f"views given: {got}; the store has {', '.join(names)}: give all of them")
    checked = {}
    n_rows = None if index is None else len(index)
    for view in views:
        values = unmasked(arrays[view.name], label=f"view {view.name}")
        if n_rows is None:
            n_rows = len(values) if values.ndim else 0
        if values.dtype.kind != "f" or values.shape != (n_rows, view.dim):
            raise InputError(
                f"view {view.name}: got {values.dtype} of shape {values.shape}; expected floating "
                f"numbers of shape ({n_rows}, {view.dim})"
            )
        checked[view.name] = values
    return checked


def cast_rows(values: FloatArray, view: ViewInfo, out: FloatArray | None = None) -> FloatArray:
    """Return rows in the stored type.

    Raises:
        InputError: NaN or infinite values, or values that the stored type cannot hold.
    """
    with np.errstate(over="ignore"):  # an overflow is reported below
        if out is None:
            out = np.ascontiguousarray(values, dtype=view.column.dtype)
        else:
            np.copyto(out, values, casting="same_kind")
    if not is_all_finite(out):
        row, place = (int(i[0]) for i in np.nonzero(~np.isfinite(out)))
        value = float(values[row, place])
        if np.isfinite(value):
            raise InputError(
                f"view {view.name}: {value:g} in row {row} does not fit {view.dtype}; "
                "store a wider type"
            )
        raise InputError(
            f"view {view.name}: row {row} of the rows given holds {value}; leave such rows out or "
            "repair what made them"
        )
    return out
