"""Distances of all pairs of rows: their correlation by blocks, and their ranks where they fit."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from repalign.core.rows import DEFAULT_MEMORY, FEWER_ROWS, block_rows_for

# What a block holds for each pair of rows: two distances and their three products.
PAIR_BYTES = 48
# What ranking holds for each pair of rows: distances, sorted, ranked, of both sides.
RANKED_BYTES = 64
# Digits of a distance over their mean that are not rounding.
TIED_DIGITS = 11


def correlation_of_sums(sums: Float[np.ndarray, " 5"], count: int) -> float:
    """Return the correlation of ``count`` pairs of numbers from their five sums."""
    if count < 2:
        return float("nan")
    x, y, xx, yy, xy = sums
    spread = max(xx - x * x / count, 0.0) * max(yy - y * y / count, 0.0)
    if spread <= 0:
        return 0.0
    return float(np.clip((xy - x * y / count) / np.sqrt(spread), -1.0, 1.0))


def distance_correlation(
    x: Float[np.ndarray, "n p"],
    y: Float[np.ndarray, "n q"],
    *,
    memory_bytes: int = DEFAULT_MEMORY,
) -> float:
    """Return the correlation of all distances of centred rows, a block of rows at a time."""
    n = len(x)
    sides = tuple(_Side.of(values) for values in (x, y))
    sums = np.zeros(5)
    block = block_rows_for(memory_bytes, row_bytes=PAIR_BYTES * n, advice=FEWER_ROWS)
    for start in range(0, n, block):
        dx, dy = (side.distances(slice(start, min(start + block, n))) for side in sides)
        sums += [dx.sum(), dy.sum(), np.vdot(dx, dx), np.vdot(dy, dy), np.vdot(dx, dy)]
    return correlation_of_sums(sums, n * (n - 1))


@dataclass(frozen=True, eq=False)
class _Side:
    """Rows, and a number close to their distances, taken off so that no digits are lost."""

    values: Float[np.ndarray, "n d"]
    squares: Float[np.ndarray, " n"]
    usual: float

    @classmethod
    def of(cls, values: Float[np.ndarray, "n d"]) -> "_Side":
        squares = np.einsum("ij,ij->i", values, values)
        return cls(values, squares, float(np.sqrt(2 * squares.mean())))

    def distances(self, rows: slice) -> Float[np.ndarray, "m n"]:
        """Return the distances of some rows to all, less the usual one; 0 of a row to itself."""
        squared = self.squares[rows, None] + self.squares - 2 * (self.values[rows] @ self.values.T)
        found = np.sqrt(np.maximum(squared, 0.0)) - self.usual
        here = np.arange(len(found))
        found[here, here + rows.start] = 0.0
        return found


def distance_matrix(values: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n n"]:
    """Return the distances of all pairs of rows less their mean, 0 of a row to itself."""
    return _centred(_all_distances(values))


def rank_numbers(values: Float[np.ndarray, "n d"]) -> Int[np.ndarray, " pairs"]:
    """Return the place of each pair's distance among the different distances, from 0.

    Distances that differ by rounding are equal.
    """
    distances = _all_distances(values)
    usual = distances.mean()
    if usual > 0:
        distances = np.round(distances / usual, TIED_DIGITS)
    return np.unique(distances, return_inverse=True)[1]


def _all_distances(values: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " pairs"]:
    from scipy.spatial.distance import pdist

    return pdist(values)


def ranks_of(numbers: Int[np.ndarray, " pairs"]) -> Float[np.ndarray, " pairs"]:
    """Return ranks of pairs by their places; equal ones share the mean of theirs."""
    counts = np.bincount(numbers)
    return (np.cumsum(counts) - (counts - 1) / 2)[numbers]


def rank_matrix(numbers: Int[np.ndarray, " pairs"]) -> Float[np.ndarray, "n n"]:
    """Return the ranks of all pairs of rows less their mean, 0 of a row with itself."""
    return _centred(ranks_of(numbers))


def _centred(values: Float[np.ndarray, " pairs"]) -> Float[np.ndarray, "n n"]:
    from scipy.spatial.distance import squareform

    return squareform(values - values.mean())


def correlation_of_pairs(
    first: Float[np.ndarray, "*shape"], second: Float[np.ndarray, "*shape"]
) -> float:
    """Return the correlation of two sets of centred numbers; 0 where one does not vary."""
    a, b = first.ravel(), second.ravel()
    spread = np.sqrt(float(a @ a) * float(b @ b))
    return float(np.clip(a @ b / spread, -1.0, 1.0)) if spread > 0 else 0.0
