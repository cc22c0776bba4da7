"""Sufficient statistics of paired rows: one pass, any size, mergeable.

For rows (x_i, y_i), i = 1..n, the moments are n, the means and the centred scatter sums

    S_xy = Σ_i (x_i − x̄)(y_i − ȳ)ᵀ   (and S_xx, S_yy),

from which every map but ICA, every CCA, CKA and R² follows without seeing the rows again.
Blocks are centred by their own mean before they are multiplied, and merged by the update of
Chan, Golub and LeVeque (1983), so that a large common offset costs no digits.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Integer

from repalign.aliases import Rows
from repalign.core.checks import check_finite_block, check_paired, check_parts
from repalign.core.compute import torch_threads_only
from repalign.core.rows import DEFAULT_MEMORY, block_rows_for
from repalign.exceptions import InputError

DOUBLE_EPSILON = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class PairMoments:
    """Means and centred scatter sums of n paired rows, in double precision.

    ``a + b`` are the moments of both sets of rows, ``a.subtract(b)`` those of the rows of a
    without those of b, ``swapped`` those of the opposite direction.

    Attributes:
        n: Number of rows.
        mean_x: Mean of the source rows, length p.
        mean_y: Mean of the target rows, length q.
        sxx: Σ (x − x̄)(x − x̄)ᵀ, p×p.
        sxy: Σ (x − x̄)(y − ȳ)ᵀ, p×q.
        syy: Σ (y − ȳ)(y − ȳ)ᵀ, q×q.
        epsilon_x: Relative spacing of the type in which the source rows are stored; it decides
            which directions are rounding noise.
        epsilon_y: The same of the target rows.
    """

    n: int
    mean_x: Float[np.ndarray, " p"]
    mean_y: Float[np.ndarray, " q"]
    sxx: Float[np.ndarray, "p p"]
    sxy: Float[np.ndarray, "p q"]
    syy: Float[np.ndarray, "q q"]
    epsilon_x: float = DOUBLE_EPSILON
    epsilon_y: float = DOUBLE_EPSILON

    @property
    def source_dim(self) -> int:
        """Width p of the source rows."""
        return int(self.mean_x.shape[0])

    @property
    def target_dim(self) -> int:
        """Width q of the target rows."""
        return int(self.mean_y.shape[0])

    def __add__(self, other: "PairMoments") -> "PairMoments":
        return self.merge(other)

    def merge(self, other: "PairMoments") -> "PairMoments":
        """Return the moments of the rows of both."""
        n = self.n + other.n
        if n == 0:
            return self
        share = other.n / n
        weight = self.n * share
        dx, dy = other.mean_x - self.mean_x, other.mean_y - self.mean_y
        return PairMoments(
            n=n,
            mean_x=self.mean_x + share * dx,
            mean_y=self.mean_y + share * dy,
            sxx=self.sxx + other.sxx + weight * np.outer(dx, dx),
            sxy=self.sxy + other.sxy + weight * np.outer(dx, dy),
            syy=self.syy + other.syy + weight * np.outer(dy, dy),
            epsilon_x=max(self.epsilon_x, other.epsilon_x),
            epsilon_y=max(self.epsilon_y, other.epsilon_y),
        )

    def subtract(self, part: "PairMoments") -> "PairMoments":
        """Return the moments of the rows that are left when those of ``part`` are taken away.

        Digits are lost in proportion to the share that is taken away; merge the other parts
        instead where nearly all rows go.

        Raises:
            InputError: ``part`` has more rows than there are.
        """
        n = self.n - part.n
        if n < 0:
            raise InputError(
                f"{part.n} rows cannot be taken away from {self.n}; expected a part of them"
            )
        if n == 0:
            return empty_moments(self.source_dim, self.target_dim)
        # Merging rest and part must give the whole: solve Chan's update for the rest.
        dx = (part.mean_x - self.mean_x) * (self.n / n)
        dy = (part.mean_y - self.mean_y) * (self.n / n)
        share = part.n / self.n
        weight = n * share
        return PairMoments(
            n=n,
            mean_x=self.mean_x - share * dx,
            mean_y=self.mean_y - share * dy,
            sxx=self.sxx - part.sxx - weight * np.outer(dx, dx),
            sxy=self.sxy - part.sxy - weight * np.outer(dx, dy),
            syy=self.syy - part.syy - weight * np.outer(dy, dy),
            epsilon_x=self.epsilon_x,
            epsilon_y=self.epsilon_y,
        )

    def swapped(self) -> "PairMoments":
        """Return the moments of the opposite direction, target to source."""
        return PairMoments(
            n=self.n,
            mean_x=self.mean_y,
            mean_y=self.mean_x,
            sxx=self.syy,
            sxy=self.sxy.T,
            syy=self.sxx,
            epsilon_x=self.epsilon_y,
            epsilon_y=self.epsilon_x,
        )


def empty_moments(source_dim: int, target_dim: int) -> PairMoments:
    """Return the moments of no rows, the neutral element of merging."""
    return PairMoments(
        n=0,
        mean_x=np.zeros(source_dim),
        mean_y=np.zeros(target_dim),
        sxx=np.zeros((source_dim, source_dim)),
        sxy=np.zeros((source_dim, target_dim)),
        syy=np.zeros((target_dim, target_dim)),
        epsilon_x=0.0,
        epsilon_y=0.0,
    )


def merge_all(parts: tuple[PairMoments, ...]) -> PairMoments:
    """Return the moments of the rows of all parts.

    Raises:
        InputError: There is no part.
    """
    if not parts:
        raise InputError("there are no moments to merge; expected at least one part")
    total = parts[0]
    for part in parts[1:]:
        total = total.merge(part)
    return total


def leave_one_out(parts: tuple[PairMoments, ...]) -> tuple[PairMoments, ...]:
    """Return, for every part, the moments of all other parts.

    They are merged from both ends, never subtracted, so that no digits are lost.

    Raises:
        InputError: There are fewer than two parts.
    """
    if len(parts) < 2:
        raise InputError(f"{len(parts)} part cannot be left out; expected at least two parts")
    before = [empty_moments(parts[0].source_dim, parts[0].target_dim)]
    for part in parts[:-1]:
        before.append(before[-1].merge(part))
    after = empty_moments(parts[0].source_dim, parts[0].target_dim)
    rest = []
    for index in range(len(parts) - 1, -1, -1):
        rest.append(before[index].merge(after))
        after = parts[index].merge(after)
    return tuple(reversed(rest))


class _Accumulator:
    """Moments under construction on the device; it owns its tensors and changes them."""

    def __init__(self, source_dim: int, target_dim: int, device: str) -> None:
        width = source_dim + target_dim
        self.source_dim = source_dim
        self.n = 0
        self.mean = torch.zeros(width, dtype=torch.float64, device=device)
        self.sxx, self.sxy, self.syy = (
            torch.zeros(shape, dtype=torch.float64, device=device)
            for shape in (
                (source_dim, source_dim),
                (source_dim, target_dim),
                (target_dim, target_dim),
            )
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
        self.sxx.addmm_(x.T, x).addr_(delta_x, delta_x, alpha=weight)
        self.sxy.addmm_(x.T, y).addr_(delta_x, delta_y, alpha=weight)
        self.syy.addmm_(y.T, y).addr_(delta_y, delta_y, alpha=weight)
        self.mean[:p] += (rows / total) * delta_x
        self.mean[p:] += (rows / total) * delta_y
        self.n = total

    def freeze(self, epsilon_x: float, epsilon_y: float) -> PairMoments:
        p = self.source_dim
        mean = self.mean.cpu().numpy()
        return PairMoments(
            n=self.n,
            mean_x=mean[:p].copy(),
            mean_y=mean[p:].copy(),
            sxx=self.sxx.cpu().numpy(),
            sxy=self.sxy.cpu().numpy(),
            syy=self.syy.cpu().numpy(),
            epsilon_x=epsilon_x,
            epsilon_y=epsilon_y,
        )


def pair_moments(
    x: Rows,
    y: Rows,
    *,
    part_of_row: Integer[np.ndarray, " n"] | None = None,
    n_parts: int = 1,
    memory_bytes: int = DEFAULT_MEMORY,
    device: str = "cpu",
    on_progress: Callable[[int, int], None] | None = None,
) -> tuple[PairMoments, ...]:
    """Return the moments of every part of the paired rows, reading all rows once.

    Parts are folds, blocks or groups: row i belongs to part ``part_of_row[i]``; without it all
    rows are part 0. Merge the parts for the whole. Every value is checked to be finite.

    Raises:
        InputError: The rows do not pair, a value is not finite (the row is named), the part
            numbers are wrong, or the memory cap is too small for the statistics.
    """
    n_rows = check_paired(x, y)
    check_parts(part_of_row, n_rows=n_rows, n_parts=n_parts)
    p, q = x.shape[1], y.shape[1]
    block_rows = block_rows_for(
        memory_bytes,
        row_bytes=p * (x.dtype.itemsize + 16) + q * (y.dtype.itemsize + 16),
        reserved_bytes=8 * n_parts * (p * p + p * q + q * q),
    )
    parts = [_Accumulator(p, q, device) for _ in range(n_parts)]
    with torch_threads_only():
        for start in range(0, n_rows, block_rows):
            stop = min(start + block_rows, n_rows)
            source = _to_device(x, start, stop, device=device, name="the source")
            target = _to_device(y, start, stop, device=device, name="the target")
            labels = None if part_of_row is None else part_of_row[start:stop]
            _add_block(parts, source, target, labels)
            if on_progress is not None:
                on_progress(stop, n_rows)
    epsilon_x, epsilon_y = float(np.finfo(x.dtype).eps), float(np.finfo(y.dtype).eps)
    return tuple(part.freeze(epsilon_x, epsilon_y) for part in parts)


def _to_device(rows: Rows, start: int, stop: int, *, device: str, name: str) -> torch.Tensor:
    block = rows.read(start, stop)
    check_finite_block(block, first_row=start, name=name)
    return torch.from_numpy(block).to(device=device, dtype=torch.float64, copy=True)


def _add_block(
    parts: list[_Accumulator],
    source: torch.Tensor,
    target: torch.Tensor,
    labels: np.ndarray | None,
) -> None:
    if labels is None:
        parts[0].add(source, target)
        return
    for label in np.unique(labels):
        chosen = torch.from_numpy(np.flatnonzero(labels == label)).to(source.device)
        parts[int(label)].add(source[chosen], target[chosen])
