"""Paired rows in memory: as they are, with the pairing shuffled, or without some of the rows.

What is expensive (neighbours, distances, ranks) is found once of the rows as they are; shuffling
only renames rows, and leaving some out only takes from what is known.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Int

from repalign.core.moments import PairMoments
from repalign.core.rows import DEFAULT_MEMORY
from repalign.core.similarity.distances import (
    DistanceSums,
    correlation_of_pairs,
    distance_matrix,
    pairs_kept,
    rank_matrix,
    rank_numbers,
    ranks_of,
    sum_distances,
)
from repalign.core.similarity.neighbours import (
    centred,
    mutual_share,
    nearest_kept,
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
        self._nearest = np.empty((self.n, 0), dtype=np.int64)

    @cached_property
    def values(self) -> Float[np.ndarray, "n d"]:
        """The rows in double precision, centred."""
        return centred(self._rows)

    @cached_property
    def radii(self) -> Float[np.ndarray, " n"]:
        """‖x_i − x̄‖² of every row."""
        return np.einsum("ij,ij->i", self.values, self.values)

    def nearest(self, count: int) -> Int[np.ndarray, "n count"]:
        """Return the nearest rows of each."""
        return self.listed(count)[:, :count]

    def listed(self, count: int) -> Int[np.ndarray, "n longer"]:
        """Return more of the nearest rows, so that some can be left out; made once."""
        longer = min(3 * count + 10, self.n - 1)
        if self._nearest.shape[1] < longer:
            self._nearest = nearest_rows(
                self._rows, longer, seed=self.seed, memory_bytes=self.memory_bytes
            )
        return self._nearest

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

    def kept(self, keep: Bool[np.ndarray, " n"]) -> "HeldSide":
        """Return some of the rows."""
        return KeptSide(self, keep)


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


class KeptSide(HeldSide):
    """Some of the rows of another side."""

    def __init__(self, base: HeldSide, keep: Bool[np.ndarray, " n"]) -> None:
        super().__init__(base.values[keep], memory_bytes=base.memory_bytes, seed=base.seed)
        self.base = base
        self.keep = keep

    def nearest(self, count: int) -> Int[np.ndarray, "n count"]:
        """Return the nearest rows of each among those kept."""
        listed = self.base.listed(count)
        return nearest_kept(self.base.values, listed, self.keep, count, seed=self.seed)

    @cached_property
    def rank_numbers(self) -> Int[np.ndarray, " pairs"]:
        """Places of the distances of the pairs that are left."""
        return self.base.rank_numbers[pairs_kept(self.keep)]

    @cached_property
    def ranks(self) -> Float[np.ndarray, "n d"]:
        """Ranks of the values that are left, found without sorting again."""
        return _ranks_of(self.base.value_numbers[self.keep], len(self.keep))


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
        left_out: Of which rows these are a part, by bundle, and the bundle that was left out.
        shuffled: The pairing is none that was observed.
    """

    source: HeldSide
    target: HeldSide
    left_out: "tuple[HeldRows, Int[np.ndarray, ' n'], int] | None" = None
    shuffled: bool = False
    _sums: dict[bytes, DistanceSums] = field(default_factory=dict)

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

    def without(self, bundle: Int[np.ndarray, " n"], number: int) -> "HeldRows":
        """Return the rows of all bundles but one."""
        keep = bundle != number
        return HeldRows(self.source.kept(keep), self.target.kept(keep), (self, bundle, number))

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
        if self.left_out is not None:
            base, bundle, number = self.left_out
            return base.distance_sums(bundle).correlation(without=number)
        return self.distance_sums(np.zeros(self.n, dtype=np.int64)).correlation()

    def distance_sums(self, bundle: Int[np.ndarray, " n"]) -> DistanceSums:
        """Return the sums over all pairs of rows by bundle, made once."""
        key = bundle.tobytes()
        if key not in self._sums:
            self._sums[key] = sum_distances(
                self.source.values,
                self.target.values,
                bundle,
                memory_bytes=self.source.memory_bytes,
            )
        return self._sums[key]

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
