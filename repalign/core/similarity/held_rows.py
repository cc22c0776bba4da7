"""Paired rows in memory: as they are, with the pairing shuffled, or some of the rows.

What is expensive (neighbours, distances, ranks) is found once of the rows as they are; shuffling
only renames rows.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from repalign.core.moments import PairMoments
from repalign.core.rows import DEFAULT_MEMORY
from repalign.core.similarity.distances import (
    correlation_of_pairs,
    distance_correlation,
    distance_matrix,
    rank_matrix,
    rank_numbers,
    ranks_of,
)
from repalign.core.similarity.neighbours import (
    centred,
    mutual_share,
    nearest_rows,
)

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
        """Return the source as it is beside the target in another order."""
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
