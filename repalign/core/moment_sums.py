"""Summing moments over blocks of rows, on the device; ``repalign.core.moments`` says of what."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Integer

from repalign.aliases import Rows
from repalign.core.arrays import DeviceArray, numbers_on, on_device, zeros
from repalign.core.checks import check_finite_block, check_not_vanishing, check_parts
from repalign.core.compute import one_pool
from repalign.core.rows import DEFAULT_MEMORY, SMALLEST_BLOCK, OnProgress, block_rows_for

# Which products are summed: all three, those of the source alone, or the cross products alone.
Products = Literal["all", "source", "cross"]
# A block is cut into its parts: of more parts than this it is larger, since what a part costs
# beside its products would take most of the time for a few rows.
_FEW_PARTS = 5
_MOST_BLOCKS = 4


@dataclass(frozen=True, eq=False)
class Parts:
    """Which part every row belongs to; without ``of_row`` all rows are part 0."""

    of_row: Integer[np.ndarray, " n"] | None = None
    n: int = 1


class MomentSums:
    """Moments under construction on the device; it owns its arrays and changes them.

    Values are summed less those of the first row, so that a constant column has a scatter of
    exactly zero, whatever the rounding of its mean.
    """

    def __init__(self, source_dim: int, target_dim: int, products: Products, device: str) -> None:
        width = source_dim + target_dim
        self.source_dim = source_dim
        self.products = products
        self.device = device
        self.n = 0
        self.first_row: DeviceArray | None = None
        self.mean_offset = zeros((width,), device)
        p, q = (0, 0) if products == "cross" else (source_dim, target_dim)
        shapes = ((p, p), (source_dim, target_dim), (q, q))
        self.sxx, self.sxy, self.syy = (zeros(shape, device) for shape in shapes)

    def add(self, x: DeviceArray, y: DeviceArray) -> None:
        """Add rows in double precision; the arrays are used up."""
        rows, p = x.shape[0], self.source_dim
        if self.first_row is None:
            self.first_row = zeros(self.mean_offset.shape, self.device)
            self.first_row[:p], self.first_row[p:] = x[0], y[0]
        x -= self.first_row[:p]
        y -= self.first_row[p:]
        mean_x, mean_y = x.mean(0), y.mean(0)
        x -= mean_x
        y -= mean_y
        total = self.n + rows
        delta_x, delta_y = mean_x - self.mean_offset[:p], mean_y - self.mean_offset[p:]
        weight = self.n * rows / total
        if self.products != "cross":
            self.sxx += x.T @ x
            self.sxx += weight * (delta_x[:, None] * delta_x)
        if self.products != "source":
            self.sxy += x.T @ y
            self.sxy += weight * (delta_x[:, None] * delta_y)
        if self.products == "all":
            self.syy += y.T @ y
            self.syy += weight * (delta_y[:, None] * delta_y)
        self.mean_offset[:p] += (rows / total) * delta_x
        self.mean_offset[p:] += (rows / total) * delta_y
        self.n = total

    @property
    def mean(self) -> DeviceArray:
        """Mean of the rows of both sides, the source first."""
        return self.mean_offset if self.first_row is None else self.first_row + self.mean_offset


def sum_moments(
    x: Rows,
    y: Rows | None,
    parts: Parts,
    products: Products,
    *,
    memory_bytes: int = DEFAULT_MEMORY,
    device: str = "cpu",
    on_progress: OnProgress | None = None,
) -> list[MomentSums]:
    """Return the sums of every part, reading all rows once; without ``y`` of the source alone.

    Raises:
        InputError: A value is not finite (the row is named), all are so small that their powers
            vanish, the part numbers are wrong, or the memory cap is too small for the statistics.
    """
    n_rows, p = x.shape
    q = 0 if y is None else y.shape[1]
    # Blocks of one side are those of a pair of equal sides, so that sums of a space are, to the
    # last digit, those that a pass over such a pair would give.
    mate = x if y is None else y
    m = mate.shape[1]
    check_parts(parts.of_row, n_rows=n_rows, n_parts=parts.n)
    row_bytes = p * (x.dtype.itemsize + 16) + m * (mate.dtype.itemsize + 16)
    sum_bytes = 8 * parts.n * (p * p + p * m + m * m)
    fit = _columns_that_fit(max(p, m), memory_bytes, row_bytes, sum_bytes)
    block_rows = block_rows_for(
        memory_bytes,
        row_bytes=row_bytes,
        reserved_bytes=sum_bytes,
        most=_MOST_BLOCKS if parts.n > _FEW_PARTS else 1,
        advice=f"use fewer columns (got {max(p, m):,}, about {fit:,} fit; PCA first) or allow more "
        "(--memory)",
    )
    names = ("the space", "") if y is None else ("the source", "the target")
    sums = [MomentSums(p, q, products, device) for _ in range(parts.n)]
    largest = dict.fromkeys(names, 0.0)
    with one_pool(device):
        for start in range(0, n_rows, block_rows):
            stop = min(start + block_rows, n_rows)
            source = _to_device(x.read(start, stop), start, device, names[0], largest)
            if y is None:
                target = zeros((stop - start, 0), device)
            else:
                target = _to_device(y.read(start, stop), start, device, names[1], largest)
            labels = None if parts.of_row is None or parts.n == 1 else parts.of_row[start:stop]
            _add_block(sums, source, target, labels, device)
            if on_progress is not None:
                on_progress(stop, n_rows)
    for name, magnitude in largest.items():
        check_not_vanishing(magnitude, name=name)
    return sums


def _columns_that_fit(columns: int, memory_bytes: int, row_bytes: int, sum_bytes: int) -> int:
    """Return how many columns fit: sums grow with their square, a block of rows with them."""
    block_bytes = SMALLEST_BLOCK * row_bytes
    share = (block_bytes**2 + 4 * sum_bytes * memory_bytes) ** 0.5 - block_bytes
    return int(columns * share / (2 * sum_bytes))


def _to_device(
    block: np.ndarray, first_row: int, device: str, name: str, largest: dict[str, float]
) -> DeviceArray:
    magnitude = check_finite_block(block, first_row=first_row, name=name)
    largest[name] = max(largest[name], magnitude)
    return on_device(block, device, copy=True)


def _add_block(
    sums: list[MomentSums],
    source: DeviceArray,
    target: DeviceArray,
    labels: np.ndarray | None,
    device: str,
) -> None:
    if labels is None:
        sums[0].add(source, target)
        return
    for label in np.unique(labels):
        chosen = numbers_on(np.flatnonzero(labels == label), device)
        sums[int(label)].add(source[chosen], target[chosen])
