"""Ways to deal factors to rows anew that chance could have dealt as well.

A null may only break what the null hypothesis says is not there, the tie between latents and
factors, and must keep what is there anyway: that rows of one group (the tokens of a document,
the views of an object) resemble each other.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Int

from repalign.core.factors.encoding import Factors
from repalign.core.resampling.permutations import (
    COUNTED,
    FEWEST_ARRANGEMENTS,
    Arrangements,
    arrange,
)

Scheme = Literal["rows", "groups", "runs of groups"]


@dataclass(frozen=True, eq=False)
class FactorShuffle:
    """How the factors are shuffled.

    ``rows``: every row gets the factors of another. ``groups``: the factors are the same in all
    rows of a group, and every group gets those of another; all rows take part, whatever the
    sizes. ``runs of groups``: factors vary inside groups, so that whole groups change places
    with groups of about their size, cut to one length.

    Attributes:
        scheme: One of these.
        kept: Rows that take part, for the observed score and the shuffled ones alike.
        n_groups: Groups there are.
        n_arrangements: Shuffles that can be told apart, the given order among them; infinite
            where they are past counting.
        orders: Orders of what changes places.
    """

    scheme: Scheme
    kept: Int[np.ndarray, " k"]
    n_groups: int
    n_arrangements: float
    orders: Arrangements
    _dealt: Int[np.ndarray, " _"]
    _taker: Int[np.ndarray, " k"]

    @property
    def n_rows(self) -> int:
        """Rows there were to choose from."""
        return self._taker.size if self.scheme != "runs of groups" else self.orders.n_rows

    @property
    def n_moving(self) -> int:
        """Groups (or single rows) that change places; the others keep their factors."""
        return self.orders.n_moving

    @property
    def is_sufficient(self) -> bool:
        """Whether there are enough arrangements for a p-value worth the name."""
        return self.n_arrangements >= FEWEST_ARRANGEMENTS

    def smallest_p(self, wanted: int) -> float:
        """Return the smallest p-value that so many shuffles can attain."""
        return max(self.orders.smallest_p(wanted), 1 / self.n_arrangements)

    def draws(self, wanted: int, rng: np.random.Generator) -> Iterator[Int[np.ndarray, " k"]]:
        """Yield, shuffle by shuffle, the row whose factors every kept row gets."""
        for order in self.orders.shuffles(wanted, rng):
            yield self._dealt[order][self._taker]


def plan_shuffle(
    factors: Factors,
    groups: Int[np.ndarray, " n"] | None = None,
    *,
    is_ordered: bool = True,
    seed: int = 0,
) -> FactorShuffle:
    """Return how the factors of rows may be shuffled, given the group of every row.

    ``is_ordered``: rows of a group stand in an order that means something, so that the first
    rows of a longer group are kept; else a random choice, drawn from ``seed``.
    """
    n_rows = len(factors.values)
    everyone = np.arange(n_rows)
    members = everyone if groups is None else groups
    _, first, member = np.unique(members, return_index=True, return_inverse=True)
    if first.size < n_rows and not (factors.values == factors.values[first][member]).all():
        nowhere = np.zeros(n_rows, dtype=np.int64)
        orders = arrange(member, blocks=nowhere, is_ordered=is_ordered, seed=seed)
        count = float(orders.count) if orders.count < COUNTED else math.inf
        places = np.arange(orders.kept.size)
        return FactorShuffle(
            "runs of groups", orders.kept, first.size, count, orders, orders.kept, places
        )
    scheme: Scheme = "groups" if first.size < n_rows else "rows"
    rows = first if scheme == "groups" else everyone
    orders = arrange(np.arange(rows.size), blocks=np.zeros(rows.size, dtype=np.int64))
    taker = member if scheme == "groups" else everyone
    return FactorShuffle(scheme, everyone, first.size, _count(factors, rows), orders, rows, taker)


def _count(factors: Factors, rows: Int[np.ndarray, " g"]) -> float:
    """Count the ways to deal the factors of these rows to them that can be told apart."""
    _, repeats = np.unique(factors.values[rows], axis=0, return_counts=True)
    exponent = math.lgamma(rows.size + 1) - sum(math.lgamma(k + 1) for k in repeats.tolist())
    return float(round(math.exp(exponent))) if exponent < 30 else math.inf
