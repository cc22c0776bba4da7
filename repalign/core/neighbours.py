"""Paired rows in memory for measures that read them: nearest rows, distances of all pairs, ranks.

All are exact, a block of rows at a time. What is expensive is computed once of the rows as they
are; shuffling the pairing only renames rows.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from jaxtyping import Float, Int
from xxhash import xxh3_64_intdigest

from repalign.core.linalg import ContentMemo
from repalign.core.moments import DOUBLE_EPSILON, PairMoments, is_constant
from repalign.core.rows import DEFAULT_MEMORY, FEWER_ROWS, block_rows_for

# What a block holds for each pair of rows: the squared distance, its sorted order, copies.
PAIR_BYTES = 32
# Squared distances are equal where they differ by less than this share of the mean ‖x‖².
TIE = 1e-12
MEMO = ContentMemo(2**27)


def centred(rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
    """Return rows in double precision, less their mean; constant columns become exactly zero."""
    values = rows.astype(np.float64) - rows[0]
    offset = values.mean(axis=0)
    values -= offset
    epsilon = float(np.finfo(rows.dtype).eps) if rows.dtype.kind == "f" else DOUBLE_EPSILON
    scatter = np.einsum("ij,ij->j", values, values)
    values[:, is_constant(scatter, rows[0] + offset, len(rows), epsilon)] = 0.0
    return values


def nearest_rows(
    rows: Float[np.ndarray, "n d"],
    count: int,
    *,
    seed: int = 0,
    memory_bytes: int = DEFAULT_MEMORY,
) -> Int[np.ndarray, "n count"]:
    """Return the numbers of the ``count`` rows nearest to every row, nearest first.

    They are remembered for the next partner of these rows and may not be changed. By Euclidean
    distance in double precision. Rows at equal distances (to rounding) stand in random order, drawn
    anew for every row; the draws follow from ``seed`` and the content of the rows, so that two
    representations break their ties independently of each other.
    The rows are centred where nothing is remembered: squared distances are ‖x‖² + ‖y‖² − 2⟨x, y⟩.
    """

    def compute() -> tuple[np.ndarray, ...]:
        content = xxh3_64_intdigest(np.ascontiguousarray(rows).data)
        neighbours = Neighbours(centred(rows), (seed, content))
        return (neighbours.nearest(count, memory_bytes),)

    (nearest,) = MEMO.of(rows, ("nearest", count, memory_bytes, seed), compute)
    return nearest


class Neighbours:
    """Finds the nearest rows, with ties in random order.

    Args:
        values: Centred rows.
        seed: Of the draws that break ties.
    """

    def __init__(self, values: Float[np.ndarray, "n d"], seed: tuple[int, ...]) -> None:
        self.values = values
        self.seed = seed
        self.squares = np.einsum("ij,ij->i", values, values)
        self.tolerance = TIE * float(self.squares.mean())

    def nearest(self, count: int, memory_bytes: int) -> Int[np.ndarray, "n count"]:
        """Return the nearest rows of all rows."""
        n = len(self.values)
        nearest = np.empty((n, count), dtype=np.int64)
        block = block_rows_for(memory_bytes, row_bytes=PAIR_BYTES * n, advice=FEWER_ROWS)
        for start in range(0, n, block):
            rows = np.arange(start, min(start + block, n))
            nearest[rows] = self.of_rows(rows, count)
        return nearest

    def of_rows(self, rows: Int[np.ndarray, " m"], count: int) -> Int[np.ndarray, "m count"]:
        """Return the nearest rows of some rows."""
        distances = (
            self.squares[rows, None] + self.squares - 2 * (self.values[rows] @ self.values.T)
        )
        distances[np.arange(rows.size), rows] = np.inf
        nearest = np.argpartition(distances, count - 1, axis=1)[:, :count]
        by_place = np.take_along_axis(distances, nearest, axis=1)
        furthest = by_place.max(axis=1)
        n_as_near = np.count_nonzero(distances <= (furthest + self.tolerance)[:, None], axis=1)
        for place in np.flatnonzero(n_as_near > count):
            line, limit = distances[place], furthest[place]
            draws = self._draws(int(rows[place]))
            keys = np.where(line <= limit + self.tolerance, draws, np.inf)
            keys[line < limit - self.tolerance] = -1.0
            nearest[place] = np.argpartition(keys, count - 1)[:count]
        return self._sorted(rows, nearest, np.take_along_axis(distances, nearest, axis=1))

    def _sorted(
        self,
        rows: Int[np.ndarray, " m"],
        nearest: Int[np.ndarray, "m count"],
        distances: Float[np.ndarray, "m count"],
    ) -> Int[np.ndarray, "m count"]:
        """Return the nearest rows by rising distance, equal ones in random order."""
        order = np.lexsort((nearest, distances))
        nearest = np.take_along_axis(nearest, order, axis=1)
        steps = np.diff(np.take_along_axis(distances, order, axis=1), axis=1) > self.tolerance
        for place in np.flatnonzero(~steps.all(axis=1)):
            level = np.concatenate([[0], np.cumsum(steps[place])])
            draws = self._draws(int(rows[place]))[nearest[place]]
            nearest[place] = nearest[place][np.lexsort((draws, level))]
        return nearest

    def _draws(self, row: int) -> Float[np.ndarray, " n"]:
        """Return the random numbers by which one row orders all others at equal distances."""
        return np.random.default_rng((*self.seed, row)).random(len(self.values))


def mutual_share(first: Int[np.ndarray, "n k"], second: Int[np.ndarray, "n k"]) -> float:
    """Return the mean share of each row's neighbours that stand in both lists."""
    n, k = first.shape
    both = np.sort(np.concatenate([first, second], axis=1), axis=1)
    return float(np.count_nonzero(both[:, 1:] == both[:, :-1]) / (n * k))


# What a block holds for each pair of rows: two distances and their three products.
DISTANCE_BYTES = 48
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
    block = block_rows_for(memory_bytes, row_bytes=DISTANCE_BYTES * n, advice=FEWER_ROWS)
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
        distances = np.sqrt(np.maximum(squared, 0.0)) - self.usual
        here = np.arange(len(distances))
        distances[here, here + rows.start] = 0.0
        return distances


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


Correlation = Literal["pearson", "spearman"]


class HeldSide:
    """The rows of one side, and what is known of them once it was asked for.

    Even centring waits: of a side whose neighbours are remembered, often nothing else is asked.
    """

    def __init__(
        self,
        rows: Float[np.ndarray, "n d"],
        *,
        memory_bytes: int = DEFAULT_MEMORY,
        seed: int = 0,
    ) -> None:
        self._rows = rows
        self.n = len(rows)
        self.memory_bytes = memory_bytes
        self.seed = seed
        self._nearest: dict[int, Int[np.ndarray, "n count"]] = {}

    @cached_property
    def values(self) -> Float[np.ndarray, "n d"]:
        """The rows in double precision, centred."""
        return centred(self._rows)

    @cached_property
    def radii(self) -> Float[np.ndarray, " n"]:
        """‖x_i − x̄‖² of every row."""
        return np.einsum("ij,ij->i", self.values, self.values)

    def nearest(self, count: int) -> Int[np.ndarray, "n count"]:
        """Return the nearest rows of each, found once."""
        if count not in self._nearest:
            self._nearest[count] = nearest_rows(
                self._rows, count, seed=self.seed, memory_bytes=self.memory_bytes
            )
        return self._nearest[count]

    @cached_property
    def distances(self) -> Float[np.ndarray, "n n"]:
        """Distances of all pairs, less their mean."""
        return distance_matrix(self.values)

    @cached_property
    def rank_numbers(self) -> Int[np.ndarray, " pairs"]:
        """Places of the distances of all pairs."""
        return rank_numbers(self.values)

    @cached_property
    def distance_ranks(self) -> Float[np.ndarray, "n n"]:
        """Ranks of the distances of all pairs, less their mean."""
        return rank_matrix(self.rank_numbers)

    @cached_property
    def value_numbers(self) -> Int[np.ndarray, "n d"]:
        """Place of every value among the different ones of its column; columns apart."""
        n, d = self.values.shape
        columns = (np.unique(column, return_inverse=True)[1] for column in self.values.T)
        places = np.fromiter(columns, dtype=(np.int64, n), count=d)
        return np.ascontiguousarray(places.T) + n * np.arange(d)

    @cached_property
    def ranks(self) -> Float[np.ndarray, "n d"]:
        """Ranks of the values in every column, less their mean."""
        return _ranks_of(self.value_numbers, len(self.values))

    def reordered(self, order: Int[np.ndarray, " n"]) -> "HeldSide":
        """Return the rows in another order."""
        return ReorderedSide(self, order)

    def alone(self, rows: Int[np.ndarray, " m"]) -> "HeldSide":
        """Return some of the rows, of which nothing is known yet."""
        return HeldSide(self.values[rows], memory_bytes=self.memory_bytes, seed=self.seed)


class ReorderedSide(HeldSide):
    """The rows of another side in another order."""

    def __init__(self, base: HeldSide, order: Int[np.ndarray, " n"]) -> None:
        self.base = base
        self.order = order
        self.n = base.n
        self.memory_bytes = base.memory_bytes
        self.seed = base.seed

    @cached_property
    def values(self) -> Float[np.ndarray, "n d"]:
        """The rows."""
        return self.base.values[self.order]

    @cached_property
    def radii(self) -> Float[np.ndarray, " n"]:
        """‖x_i − x̄‖² of every row."""
        return self.base.radii[self.order]

    def nearest(self, count: int) -> Int[np.ndarray, "n count"]:
        """Return the nearest rows of each, by their new numbers."""
        new = np.empty(self.order.size, dtype=np.int64)
        new[self.order] = np.arange(self.order.size)
        return new[self.base.nearest(count)[self.order]]

    @cached_property
    def distances(self) -> Float[np.ndarray, "n n"]:
        """Distances of all pairs, less their mean."""
        return self.base.distances[np.ix_(self.order, self.order)]

    @cached_property
    def distance_ranks(self) -> Float[np.ndarray, "n n"]:
        """Ranks of the distances of all pairs, less their mean."""
        return self.base.distance_ranks[np.ix_(self.order, self.order)]

    @cached_property
    def ranks(self) -> Float[np.ndarray, "n d"]:
        """Ranks of the values in every column, less their mean."""
        return self.base.ranks[self.order]


def _ranks_of(numbers: Int[np.ndarray, "n d"], n_places: int) -> Float[np.ndarray, "n d"]:
    """Return ranks less their mean; equal values share the mean of theirs."""
    n, d = numbers.shape
    counts = np.bincount(numbers.ravel(), minlength=n_places * d).reshape(d, n_places)
    middle = np.cumsum(counts, axis=1) - (counts - 1) / 2
    return middle.ravel()[numbers] - (n + 1) / 2


@dataclass(frozen=True, eq=False)
class HeldRows:
    """Paired rows of both sides.

    Attributes:
        source: Rows of the source.
        target: Rows of the target.
        shuffled: The pairing is none that was observed.
    """

    source: HeldSide
    target: HeldSide
    shuffled: bool = False

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.source.n

    def with_target_in(self, order: Int[np.ndarray, " n"]) -> "HeldRows":
        """Return the source as it is next to the target in another order."""
        return HeldRows(self.source, self.target.reordered(order), shuffled=True)

    def chosen(self, rows: Int[np.ndarray, " m"]) -> "HeldRows":
        """Return some of the rows, as if there were no others."""
        return HeldRows(self.source.alone(rows), self.target.alone(rows))

    def mutual_neighbours(self, count: int) -> float:
        """Return the mean share of the nearest rows that both sides have in common."""
        if self.n <= count:
            return float("nan")
        return mutual_share(self.source.nearest(count), self.target.nearest(count))

    def distance_correlation(self, kind: Correlation) -> float:
        """Return the correlation of the distances of all pairs of rows."""
        if self.n < 3:
            return float("nan")
        if kind == "pearson":
            return self._pearson()
        if self.shuffled:
            return correlation_of_pairs(self.source.distance_ranks, self.target.distance_ranks)
        first, second = (ranks_of(side.rank_numbers) for side in (self.source, self.target))
        return correlation_of_pairs(first - first.mean(), second - second.mean())

    def _pearson(self) -> float:
        if self.shuffled:
            return correlation_of_pairs(self.source.distances, self.target.distances)
        x, y = self.source.values, self.target.values
        return distance_correlation(x, y, memory_bytes=self.source.memory_bytes)

    def rank_moments(self) -> PairMoments:
        """Return the moments of the ranks within columns, which are centred and small numbers."""
        x, y = self.source.ranks, self.target.ranks
        return PairMoments(
            n=self.n,
            mean_x=np.zeros(x.shape[1]),
            mean_y=np.zeros(y.shape[1]),
            sxx=x.T @ x,
            sxy=x.T @ y,
            syy=y.T @ y,
        )


def hold(
    source: Float[np.ndarray, "n p"],
    target: Float[np.ndarray, "n q"],
    *,
    memory_bytes: int = DEFAULT_MEMORY,
    seed: int = 0,
) -> HeldRows:
    """Return paired rows as they are; ``seed`` is that of ties among nearest rows."""
    first, second = (
        HeldSide(rows, memory_bytes=memory_bytes, seed=seed) for rows in (source, target)
    )
    return HeldRows(first, second)
