"""Sufficient statistics of paired rows: one pass, any size, mergeable.

For rows (x_i, y_i), i = 1..n, the moments are n, the means and the centred scatter sums

    S_xy = Σ_i (x_i − x̄)(y_i − ȳ)ᵀ   (and S_xx, S_yy),

from which every map but ICA, every CCA, CKA and R² follows without seeing the rows again.
Blocks are centred by their own mean before they are multiplied, and merged by the update of
Chan, Golub and LeVeque (1983), so that a large common offset costs no digits.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Unpack

import numpy as np
from jaxtyping import Bool, Float, Int, Integer

from repalign.aliases import Rows
from repalign.core.device import DeviceArray, as_numpy, numbers_on, on_device, one_pool, zeros
from repalign.core.rows import (
    DEFAULT_MEMORY,
    SMALLEST_BLOCK,
    Limits,
    OnProgress,
    SubsetRows,
    block_rows_for,
    check_finite_block,
    check_not_vanishing,
    check_paired,
    check_parts,
    check_shape,
)
from repalign.exceptions import InputError

# Which products are summed: all three, those of the source alone, or the cross products alone.
Products = Literal["all", "source", "cross"]
# A block is cut into its parts: of more parts than this it is larger, since what a part costs
# next to its products would take most of the time for a few rows.
_FEW_PARTS = 5
_MOST_BLOCKS = 4


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


def sum_moments(
    x: Rows,
    y: Rows | None,
    products: Products,
    *,
    part_of_row: Integer[np.ndarray, " n"] | None = None,
    n_parts: int = 1,
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
    check_parts(part_of_row, n_rows=n_rows, n_parts=n_parts)
    row_bytes = p * (x.dtype.itemsize + 16) + m * (mate.dtype.itemsize + 16)
    sum_bytes = 8 * n_parts * (p * p + p * m + m * m)
    fit = _columns_that_fit(max(p, m), memory_bytes, row_bytes, sum_bytes)
    block_rows = block_rows_for(
        memory_bytes,
        row_bytes=row_bytes,
        reserved_bytes=sum_bytes,
        most=_MOST_BLOCKS if n_parts > _FEW_PARTS else 1,
        advice=f"use fewer columns (got {max(p, m):,}, about {fit:,} fit; PCA first) or allow more "
        "(--memory)",
    )
    names = ("the space", "") if y is None else ("the source", "the target")
    sums = [MomentSums(p, q, products, device) for _ in range(n_parts)]
    largest = dict.fromkeys(names, 0.0)
    with one_pool(device):
        for start in range(0, n_rows, block_rows):
            stop = min(start + block_rows, n_rows)
            source = _to_device(x.read(start, stop), start, device, names[0], largest)
            if y is None:
                target = zeros((stop - start, 0), device)
            else:
                target = _to_device(y.read(start, stop), start, device, names[1], largest)
            labels = None if part_of_row is None or n_parts == 1 else part_of_row[start:stop]
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


DOUBLE_EPSILON = float(np.finfo(np.float64).eps)
# A difference of two sums of squares is known to a few roundings of the larger.
SUBTRACTION_ERROR = 16 * DOUBLE_EPSILON
# What the moments of bundles may take at once.
BUNDLES_BYTES = 2**28


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
        sxx = self.sxx - part.sxx - weight * np.outer(dx, dx)
        syy = self.syy - part.syy - weight * np.outer(dy, dy)
        # columns that vary only among the rows that are taken away
        constant_x = np.diag(sxx) <= SUBTRACTION_ERROR * np.diag(self.sxx)
        constant_y = np.diag(syy) <= SUBTRACTION_ERROR * np.diag(self.syy)
        return PairMoments(
            n=n,
            mean_x=self.mean_x - share * dx,
            mean_y=self.mean_y - share * dy,
            sxx=_without(sxx, constant_x, constant_x),
            sxy=_without(self.sxy - part.sxy - weight * np.outer(dx, dy), constant_x, constant_y),
            syy=_without(syy, constant_y, constant_y),
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
        total = total + part
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
        before.append(before[-1] + part)
    after = empty_moments(parts[0].source_dim, parts[0].target_dim)
    rest = []
    for index in range(len(parts) - 1, -1, -1):
        rest.append(before[index] + after)
        after = parts[index] + after
    return tuple(reversed(rest))


def pair_moments(
    x: Rows,
    y: Rows,
    *,
    part_of_row: Integer[np.ndarray, " n"] | None = None,
    n_parts: int = 1,
    **limits: Unpack[Limits],
) -> tuple[PairMoments, ...]:
    """Return the moments of every part of the paired rows, reading all rows once.

    Parts are folds, blocks or groups: row i belongs to part ``part_of_row[i]``; without it all
    rows are part 0. Merge the parts for the whole. Every value is checked to be finite.

    Raises:
        InputError: The rows do not pair, a value is not finite (the row is named), the part
            numbers are wrong, or the memory cap is too small for the statistics.
    """
    check_paired(x, y)
    sums = sum_moments(x, y, "all", part_of_row=part_of_row, n_parts=n_parts, **limits)
    return tuple(_frozen(part, x, y) for part in sums)


def space_moments(
    x: Rows,
    *,
    part_of_row: Integer[np.ndarray, " n"] | None = None,
    n_parts: int = 1,
    **limits: Unpack[Limits],
) -> tuple[PairMoments, ...]:
    """Return the moments of every part of one space: of a pair whose target has no columns.

    Raises:
        InputError: As ``pair_moments``.
    """
    check_shape(x.shape, name="the rows")
    sums = sum_moments(x, None, "source", part_of_row=part_of_row, n_parts=n_parts, **limits)
    return tuple(_frozen(part, x, x) for part in sums)


def cross_moments(
    x: Rows,
    y: Rows,
    known: tuple[Sequence[PairMoments], Sequence[PairMoments]],
    *,
    part_of_row: Integer[np.ndarray, " n"] | None = None,
    n_parts: int = 1,
    **limits: Unpack[Limits],
) -> tuple[PairMoments, ...]:
    """Return what ``pair_moments`` returns, where the moments of both spaces are known already.

    Raises:
        InputError: As ``pair_moments``.
    """
    check_paired(x, y)
    sums = sum_moments(x, y, "cross", part_of_row=part_of_row, n_parts=n_parts, **limits)
    return tuple(
        PairMoments(
            n=part.n,
            mean_x=source.mean_x,
            mean_y=target.mean_x,
            sxx=source.sxx,
            sxy=_without(as_numpy(part.sxy), np.diag(source.sxx) == 0, np.diag(target.sxx) == 0),
            syy=target.sxx,
            epsilon_x=source.epsilon_x,
            epsilon_y=target.epsilon_x,
        )
        for part, source, target in zip(sums, *known, strict=True)
    )


def moments_by_bundle(
    x: Rows,
    y: Rows,
    bundle: Int[np.ndarray, " n"],
    *,
    among: Int[np.ndarray, " n"],
) -> Iterator[tuple[int, PairMoments]]:
    """Yield the moments of every bundle of some rows, as many at once as their memory allows.

    ``among`` are the numbers of the rows.
    """
    (p, q), n_bundles = (x.shape[1], y.shape[1]), int(bundle.max()) + 1
    at_once = max(BUNDLES_BYTES // (8 * (p * p + p * q + q * q)), 1)
    for first in range(0, n_bundles, at_once):
        last = min(first + at_once, n_bundles)
        rows = np.flatnonzero((bundle >= first) & (bundle < last))
        sides = SubsetRows(x, among[rows]), SubsetRows(y, among[rows])
        moments = pair_moments(*sides, part_of_row=bundle[rows] - first, n_parts=last - first)
        yield from enumerate(moments, start=first)


def _frozen(sums: MomentSums, x: Rows, y: Rows) -> PairMoments:
    p, first_row = sums.source_dim, sums.first_row
    mean = as_numpy(sums.mean_offset if first_row is None else first_row + sums.mean_offset)
    mean_x, mean_y = mean[:p].copy(), mean[p:].copy()
    epsilon_x, epsilon_y = float(np.finfo(x.dtype).eps), float(np.finfo(y.dtype).eps)
    sxx, sxy, syy = (as_numpy(products) for products in (sums.sxx, sums.sxy, sums.syy))
    constant_x = is_constant(np.diag(sxx), mean_x, sums.n, epsilon_x)
    constant_y = is_constant(np.diag(syy), mean_y, sums.n, epsilon_y)
    return PairMoments(
        n=sums.n,
        mean_x=mean_x,
        mean_y=mean_y,
        sxx=_without(sxx, constant_x, constant_x),
        sxy=_without(sxy, constant_x, constant_y),
        syy=_without(syy, constant_y, constant_y),
        epsilon_x=epsilon_x,
        epsilon_y=epsilon_y,
    )


def is_constant(
    squares: Float[np.ndarray, " d"], mean: Float[np.ndarray, " d"], n: int, epsilon: float
) -> Bool[np.ndarray, " d"]:
    """Return which columns vary by at most the rounding of the stored values.

    ``squares`` are sums of squared deviations of n values from their ``mean``.

    Rounding moves a value by at most ε/2·|x|; a deviation of ε·|mean| is twice that. All measures
    and maps ask this one test: the scatter of such a column is set to zero.
    """
    return squares <= n * (epsilon * mean) ** 2


def _without(
    products: Float[np.ndarray, "p q"],
    rows: Bool[np.ndarray, " p"],
    columns: Bool[np.ndarray, " q"],
) -> Float[np.ndarray, "p q"]:
    """Set rows and columns of a matrix to zero, in place."""
    products[rows] = 0.0
    products[:, columns] = 0.0
    return products
