"""Distances of all pairs of rows: their correlation by blocks, and their ranks where they fit."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from repalign.core.rows import DEFAULT_MEMORY, FEWER_ROWS, block_rows_for

# What a block holds for each pair of rows: two distances and their three products.
PAIR_BYTES = 48
# What ranking holds for each pair of rows: distances, sorted, ranked, of both sides.
RANKED_BYTES = 64


@dataclass(frozen=True, eq=False)
class DistanceSums:
    """Sums over ordered pairs of different rows, in all and those that touch a bundle of rows.

    The five sums are those of d_x, d_y, d_x², d_y² and d_x·d_y, of distances less one number.
    """

    total: Float[np.ndarray, " 5"]
    touching: Float[np.ndarray, "bundles 5"]
    sizes: Int[np.ndarray, " bundles"]

    def correlation(self, without: int | None = None) -> float:
        """Return the correlation of the distances, without the rows of a bundle or of all."""
        n, sums = int(self.sizes.sum()), self.total
        if without is not None:
            n, sums = n - int(self.sizes[without]), self.total - self.touching[without]
        return correlation_of_sums(sums, n * (n - 1))


def correlation_of_sums(sums: Float[np.ndarray, " 5"], count: int) -> float:
    """Return the correlation of ``count`` pairs of numbers from their five sums."""
    if count < 2:
        return float("nan")
    x, y, xx, yy, xy = sums
    spread = max(xx - x * x / count, 0.0) * max(yy - y * y / count, 0.0)
    if spread <= 0:
        return 0.0
    return float(np.clip((xy - x * y / count) / np.sqrt(spread), -1.0, 1.0))


def sum_distances(
    x: Float[np.ndarray, "n p"],
    y: Float[np.ndarray, "n q"],
    bundle: Int[np.ndarray, " n"],
    *,
    memory_bytes: int = DEFAULT_MEMORY,
) -> DistanceSums:
    """Sum over all pairs of rows, a block of rows at a time; rows should be centred."""
    n = len(x)
    n_bundles = int(bundle.max()) + 1
    member = np.zeros((n, n_bundles))
    member[np.arange(n), bundle] = 1.0
    sides = tuple(_Side.of(values) for values in (x, y))
    by_bundle = np.zeros((n_bundles, 5))
    inside = np.zeros((n_bundles, 5))
    block = block_rows_for(memory_bytes, row_bytes=PAIR_BYTES * n, advice=FEWER_ROWS)
    for start in range(0, n, block):
        rows = slice(start, min(start + block, n))
        dx, dy = (side.distances(rows) for side in sides)
        for number, values in enumerate((dx, dy, dx * dx, dy * dy, dx * dy)):
            sums = values @ member
            np.add.at(by_bundle[:, number], bundle[rows], sums.sum(axis=1))
            own = sums[np.arange(len(sums)), bundle[rows]]
            np.add.at(inside[:, number], bundle[rows], own)
    return DistanceSums(
        by_bundle.sum(axis=0), 2 * by_bundle - inside, np.bincount(bundle, minlength=n_bundles)
    )


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
    """Return the place of each pair's distance among the different distances, from 0."""
    return np.unique(_all_distances(values), return_inverse=True)[1]


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


def pairs_kept(keep: Bool[np.ndarray, " n"]) -> Bool[np.ndarray, " pairs"]:
    """Return which pairs, in the order of ``scipy``'s condensed distances, have both rows kept."""
    return np.concatenate([keep[row] & keep[row + 1 :] for row in range(len(keep))])


def correlation_of_pairs(
    first: Float[np.ndarray, "*shape"], second: Float[np.ndarray, "*shape"]
) -> float:
    """Return the correlation of two sets of centred numbers; 0 where one does not vary."""
    a, b = first.ravel(), second.ravel()
    spread = np.sqrt(float(a @ a) * float(b @ b))
    return float(np.clip(a @ b / spread, -1.0, 1.0)) if spread > 0 else 0.0
