"""Some of the rows of a representation, and the blocks in which rows of any size are read."""

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
