"""Summing moments over blocks of rows, on the device; ``repalign.core.moments`` says of what."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Integer

from repalign.aliases import Rows
from repalign.core.checks import check_finite_block, check_parts
from repalign.core.compute import torch_threads_only
from repalign.core.rows import DEFAULT_MEMORY, OnProgress, block_rows_for

# Which products are summed: all three, those of the source alone, or the cross products alone.
Products = Literal["all", "source", "cross"]


@dataclass(frozen=True, eq=False)
class Parts:
    """Which part every row belongs to; without ``of_row`` all rows are part 0."""

    of_row: Integer[np.ndarray, " n"] | None = None
    n: int = 1


class MomentSums:
    """Moments under construction on the device; it owns its tensors and changes them."""

    def __init__(self, source_dim: int, target_dim: int, products: Products, device: str) -> None:
        width = source_dim + target_dim
        self.source_dim = source_dim
        self.products = products
        self.n = 0
        self.mean = torch.zeros(width, dtype=torch.float64, device=device)
        p, q = (0, 0) if products == "cross" else (source_dim, target_dim)
        shapes = ((p, p), (source_dim, target_dim), (q, q))
        self.sxx, self.sxy, self.syy = (
            torch.zeros(shape, dtype=torch.float64, device=device) for shape in shapes
        )

    def add(self, x: torch.Tensor, y: torch.Tensor) -> None:
        """Add rows in double precision; the tensors are used up."""
        rows = x.shape[0]
        mean_x, mean_y = x.mean(0), y.mean(0)
        x -= mean_x
        y -= mean_y
        p = self.source_dim
        total = self.n + rows
        delta_x, delta_y = mean_x - self.mean[:p], mean_y - self.mean[p:]
        weight = self.n * rows / total
        if self.products != "cross":
            self.sxx.addmm_(x.T, x).addr_(delta_x, delta_x, alpha=weight)
        if self.products != "source":
            self.sxy.addmm_(x.T, y).addr_(delta_x, delta_y, alpha=weight)
        if self.products == "all":
            self.syy.addmm_(y.T, y).addr_(delta_y, delta_y, alpha=weight)
        self.mean[:p] += (rows / total) * delta_x
        self.mean[p:] += (rows / total) * delta_y
        self.n = total


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
        InputError: A value is not finite (the row is named), the part numbers are wrong, or the
            memory cap is too small for the statistics.
    """
    n_rows, p = x.shape
    q = 0 if y is None else y.shape[1]
    # Blocks of one side are those of a pair of equal sides, so that sums of a space are, to the
    # last digit, those that a pass over such a pair would give.
    mate = x if y is None else y
    m = mate.shape[1]
    check_parts(parts.of_row, n_rows=n_rows, n_parts=parts.n)
    block_rows = block_rows_for(
        memory_bytes,
        row_bytes=p * (x.dtype.itemsize + 16) + m * (mate.dtype.itemsize + 16),
        reserved_bytes=8 * parts.n * (p * p + p * m + m * m),
    )
    names = ("the space", "") if y is None else ("the source", "the target")
    sums = [MomentSums(p, q, products, device) for _ in range(parts.n)]
    with torch_threads_only():
        for start in range(0, n_rows, block_rows):
            stop = min(start + block_rows, n_rows)
            source = _to_device(x, start, stop, device=device, name=names[0])
            if y is None:
                target = source.new_empty((stop - start, 0))
            else:
                target = _to_device(y, start, stop, device=device, name=names[1])
            labels = None if parts.of_row is None else parts.of_row[start:stop]
            _add_block(sums, source, target, labels)
            if on_progress is not None:
                on_progress(stop, n_rows)
    return sums


def _to_device(rows: Rows, start: int, stop: int, *, device: str, name: str) -> torch.Tensor:
    block = rows.read(start, stop)
    check_finite_block(block, first_row=start, name=name)
    return torch.from_numpy(block).to(device=device, dtype=torch.float64, copy=True)


def _add_block(
    sums: list[MomentSums],
    source: torch.Tensor,
    target: torch.Tensor,
    labels: np.ndarray | None,
) -> None:
    if labels is None:
        sums[0].add(source, target)
        return
    for label in np.unique(labels):
        chosen = torch.from_numpy(np.flatnonzero(labels == label)).to(source.device)
        sums[int(label)].add(source[chosen], target[chosen])
