"""Some of the rows of a representation, blocks of rows of any size, and what rows are refused."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np
from jaxtyping import Float, Integer

from repalign.aliases import Rows
from repalign.exceptions import InputError
from repalign.printable import byte_size
from repalign.rows import ArrayRows as ArrayRows  # what all of core reads arrays by

DEFAULT_MEMORY = 2 * 2**30
"""Bytes that a computation may hold besides its result, unless set otherwise."""

OnProgress = Callable[[int, int], None]


class Limits(TypedDict, total=False):
    """What a computation over rows is told of the machine: memory, device, who hears of it."""

    memory_bytes: int
    device: str
    on_progress: OnProgress | None


# Larger blocks are slower (they leave the caches, and every buffer is mapped anew), smaller ones
# waste calls.
_BLOCK_BYTES = 16 * 2**20
SMALLEST_BLOCK = 16
FEWER_COLUMNS = "use fewer columns (PCA first) or allow more (--memory)"
FEWER_ROWS = "use fewer rows (--measure-rows) or allow more (--memory)"


@dataclass(frozen=True, eq=False)
class SubsetRows:
    """Some of the rows of another representation: a split, a fold, a sample.

    Attributes:
        rows: The representation that is chosen from.
        chosen: Its row numbers, strictly increasing.
    """

    rows: Rows
    chosen: np.ndarray

    @property
    def shape(self) -> tuple[int, int]:
        """Number of chosen rows and number of columns."""
        return int(self.chosen.shape[0]), self.rows.shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Floating type in which the values are stored."""
        return self.rows.dtype

    def read(self, start: int, stop: int) -> Float[np.ndarray, "rows columns"]:
        """Return the chosen rows number ``start`` to ``stop`` (exclusive)."""
        return self.rows.take(self.chosen[start:stop])

    def take(self, rows: Integer[np.ndarray, " rows"]) -> Float[np.ndarray, "rows columns"]:
        """Return the chosen rows of the given numbers."""
        return self.rows.take(self.chosen[rows])


def take_in_order(
    rows: Rows, wanted: Integer[np.ndarray, " rows"]
) -> Float[np.ndarray, "rows columns"]:
    """Return rows in any order, possibly repeated."""
    unique, position = np.unique(wanted, return_inverse=True)
    return rows.take(unique)[position]


def block_rows_for(
    memory_bytes: int,
    *,
    row_bytes: int,
    reserved_bytes: int = 0,
    most: int = 1,
    advice: str = FEWER_COLUMNS,
) -> int:
    """Return how many rows a block may have so that a computation stays within its memory.

    ``row_bytes`` counts everything that is held per row of the block (the stored values and
    every temporary), ``reserved_bytes`` what is held whatever the block, ``most`` how many times
    the usual size it may have, ``advice`` what helps where the memory is too small.

    Raises:
        InputError: The cap leaves no room for the smallest block.
    """
    room = memory_bytes - reserved_bytes
    rows = min(room // 2, most * _BLOCK_BYTES) // max(row_bytes, 1)
    if rows < SMALLEST_BLOCK and room < SMALLEST_BLOCK * row_bytes:
        needed = reserved_bytes + SMALLEST_BLOCK * row_bytes
        raise InputError(
            f"memory: {byte_size(memory_bytes)} allowed, {byte_size(needed, up=True)} needed for "
            f"the smallest block of rows; {advice}"
        )
    return max(rows, SMALLEST_BLOCK)


def iter_blocks(
    rows: Rows, block_rows: int
) -> Iterator[tuple[int, Float[np.ndarray, "rows columns"]]]:
    """Yield consecutive blocks of rows, each with the number of its first row."""
    n_rows = rows.shape[0]
    for start in range(0, n_rows, block_rows):
        yield start, rows.read(start, min(start + block_rows, n_rows))


LARGEST = 1e25
"""Largest magnitude that is accepted: eighth powers, which measures of similarity and their nulls
take, and single precision, in which ICA computes, overflow for much larger values."""
SMALLEST = 1e-25
"""Smallest magnitude that the largest value of a space may have: powers of smaller ones vanish."""


def check_shape(shape: tuple[int, ...], *, name: str = "values") -> None:
    """Refuse a matrix without rows or columns.

    Raises:
        InputError: It has no rows or no columns.
    """
    if shape[0] < 1 or shape[1] < 1:
        raise InputError(f"{name} has shape {tuple(shape)}; expected at least one row and column")


def check_finite_block(
    block: Float[np.ndarray, "rows columns"], *, first_row: int, name: str = "values"
) -> float:
    """Refuse NaN, infinity and values whose powers overflow, naming the first such row.

    ``first_row`` is the number of the block's first row in the whole. Returned is the largest
    magnitude in the block, for ``check_not_vanishing``.

    Raises:
        InputError: Naming row, column and value of the first bad entry.
    """
    if block.size == 0:
        return 0.0
    # The extremes are NaN where any value is, and comparing with NaN is false.
    low, high = float(block.min()), float(block.max())
    if -LARGEST <= low <= high <= LARGEST:
        return max(-low, high)
    bad = ~(np.abs(block.astype(np.float64)) <= LARGEST)
    row = int(np.argmax(bad.any(axis=1)))
    column = int(np.argmax(bad[row]))
    raise InputError(
        f"{name} has {block[row, column]} at row {first_row + row}, column {column}; "
        f"expected finite numbers of at most {LARGEST:g}: remove the row or rescale the values"
    )


def check_not_vanishing(largest: float, *, name: str = "values") -> None:
    """Refuse a space whose largest magnitude is so small that powers of its values are lost.

    Raises:
        InputError: It is, and not zero.
    """
    if 0 < largest < SMALLEST:
        raise InputError(
            f"{name} has no value beyond {largest:.3g}; expected one of at least {SMALLEST:g}, "
            "since powers of smaller ones vanish: rescale the values"
        )


def check_paired(source: Rows, target: Rows) -> int:
    """Return the common number of rows of two representations of the same inputs.

    Raises:
        InputError: The numbers of rows differ, or there is no row or column.
    """
    check_shape(source.shape, name="the source")
    check_shape(target.shape, name="the target")
    if source.shape[0] != target.shape[0]:
        raise InputError(
            f"the source has {source.shape[0]} rows and the target {target.shape[0]}; "
            "expected the same inputs in the same order: join them by row id first"
        )
    return source.shape[0]


def check_parts(part_of_row: np.ndarray | None, *, n_rows: int, n_parts: int) -> None:
    """Refuse part numbers that do not cover the rows or lie outside ``0 .. n_parts - 1``.

    Raises:
        InputError: The length differs from the number of rows, or a number is out of range.
    """
    if n_parts < 1:
        raise InputError(f"{n_parts} parts were asked for; expected at least one")
    if part_of_row is None:
        return
    if part_of_row.shape != (n_rows,) or part_of_row.dtype.kind not in "iu":
        raise InputError(
            f"part_of_row has shape {part_of_row.shape} and type {part_of_row.dtype}; "
            f"expected one integer for each of the {n_rows} rows"
        )
    if n_rows and not (part_of_row.min() >= 0 and part_of_row.max() < n_parts):
        raise InputError(
            f"part_of_row runs from {part_of_row.min()} to {part_of_row.max()}; "
            f"expected 0 to {n_parts - 1}"
        )
