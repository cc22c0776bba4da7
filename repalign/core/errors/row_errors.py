"""How far the predicted rows are from the target: one norm per row and map, in one pass."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float

from repalign.aliases import Rows
from repalign.core.checks import check_finite_block, check_paired
from repalign.core.compute import torch_threads_only
from repalign.core.maps.affine import AffineMap
from repalign.core.rows import DEFAULT_MEMORY, block_rows_for
from repalign.exceptions import InputError


@dataclass(frozen=True)
class ErrorSummary:
    """Error norms of a map over rows, in the units of the target.

    Attributes:
        n: Number of rows.
        mean: Mean of the unsquared norms (paper, section 4.2), before any denominator.
        root_mean_square: Root of the mean squared norm; what least squares minimises.
        median: Median norm.
        maximum: Largest norm.
        worst_row: Row of the largest norm.
    """

    n: int
    mean: float
    root_mean_square: float
    median: float
    maximum: float
    worst_row: int


def summarise_errors(errors: Float[np.ndarray, " n"]) -> ErrorSummary:
    """Return the summary of the error norms of one map.

    Raises:
        InputError: There is no row.
    """
    if errors.size == 0:
        raise InputError("there are no rows to summarise errors over; expected at least one")
    worst = int(np.argmax(errors))
    return ErrorSummary(
        n=int(errors.size),
        mean=float(errors.mean()),
        root_mean_square=float(np.sqrt(np.mean(np.square(errors)))),
        median=float(np.median(errors)),
        maximum=float(errors[worst]),
        worst_row=worst,
    )


def row_errors(
    x: Rows,
    y: Rows,
    maps: Sequence[AffineMap],
    *,
    memory_bytes: int = DEFAULT_MEMORY,
    device: str = "cpu",
    on_progress: Callable[[int, int], None] | None = None,
) -> Float[np.ndarray, "maps n"]:
    """Return ‖m(x_i) − y_i‖₂ for every map m and every row i, reading all rows once.

    The dense maps are stacked into one product; maps with at most one entry per column
    (permutations, the mean) are gathered instead. Double precision throughout.

    Raises:
        InputError: The rows do not pair, a value is not finite, or a map has other widths.
    """
    n_rows = check_paired(x, y)
    p, q = x.shape[1], y.shape[1]
    for fitted in maps:
        if (fitted.source_dim, fitted.target_dim) != (p, q):
            raise InputError(
                f"a {fitted.kind} map takes {fitted.source_dim} columns to {fitted.target_dim}; "
                f"these rows need {p} to {q}"
            )
    stack = _Stack(maps, device)
    block_rows = block_rows_for(
        memory_bytes,
        row_bytes=8 * (2 * p + 3 * q + q * stack.n_dense),
        reserved_bytes=8 * len(maps) * (n_rows + p * q),
    )
    errors = np.empty((len(maps), n_rows))
    with torch_threads_only():
        for start in range(0, n_rows, block_rows):
            stop = min(start + block_rows, n_rows)
            source, target = x.read(start, stop), y.read(start, stop)
            check_finite_block(source, first_row=start, name="the source")
            check_finite_block(target, first_row=start, name="the target")
            errors[:, start:stop] = stack.norms(source, target)
            if on_progress is not None:
                on_progress(stop, n_rows)
    return errors


class _Stack:
    """Maps on the device, the dense ones side by side."""

    def __init__(self, maps: Sequence[AffineMap], device: str) -> None:
        self.maps = maps
        self.device = device
        sparse = [np.count_nonzero(m.matrix, axis=0).max(initial=0) <= 1 for m in maps]
        self.dense = [i for i, is_sparse in enumerate(sparse) if not is_sparse]
        self.gathered = [i for i, is_sparse in enumerate(sparse) if is_sparse]
        self.n_dense = len(self.dense)
        self.matrix = (
            self._tensor(np.hstack([maps[i].matrix for i in self.dense])) if self.dense else None
        )

    def _tensor(self, values: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(values).to(device=self.device, dtype=torch.float64)

    def norms(self, source: np.ndarray, target: np.ndarray) -> np.ndarray:
        x, y = self._tensor(source), self._tensor(target)
        q = y.shape[1]
        result = torch.empty((len(self.maps), len(x)), dtype=torch.float64, device=self.device)
        if self.matrix is not None:
            predicted = x @ self.matrix
            for position, index in enumerate(self.dense):
                part = predicted[:, position * q : (position + 1) * q]
                part += self._tensor(self.maps[index].shift)
                part -= y
                result[index] = torch.linalg.vector_norm(part, dim=1)
        for index in self.gathered:
            part = self._gather(x, self.maps[index].matrix)
            part += self._tensor(self.maps[index].shift)
            part -= y
            result[index] = torch.linalg.vector_norm(part, dim=1)
        return result.cpu().numpy()

    def _gather(self, x: torch.Tensor, matrix: np.ndarray) -> torch.Tensor:
        """Return x @ matrix for a matrix of at most one entry per column."""
        column = np.abs(matrix).argmax(axis=0)
        factor = self._tensor(matrix[column, np.arange(matrix.shape[1])])
        if self.device == "cpu":
            # numpy gathers columns eight times as fast as torch
            return torch.from_numpy(np.take(x.numpy(), column, axis=1)).mul_(factor)
        return x[:, torch.from_numpy(column).to(self.device)].mul_(factor)
