"""Ways to deal factors to rows anew that chance could have dealt as well.

A null may only break what the null hypothesis says is not there, the tie between latents and
factors, and must keep what is there anyway: that rows of one group (the tokens of a document,
the views of an object) resemble each other.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Int

from repalign.core.factors.encoding import Factors

Scheme = Literal["rows", "groups"]

# Below this many arrangements the smallest p-value says little, whatever the scores.
MIN_ARRANGEMENTS = 120


@dataclass(frozen=True, eq=False)
class FactorShuffle:
    """How the factors are shuffled.

    ``rows``: every row gets the factors of another. ``groups``: the factors are the same in all
    rows of a group, and every group gets those of another; all rows take part, whatever the
    sizes.

    Attributes:
        scheme: One of these.
        kept: Rows that are shuffled and judged.
        member: Group of every kept row.
        representative: One row of every group.
        n_arrangements: How many different ones there are; infinite where they are past counting.
    """

    scheme: Scheme
    kept: Int[np.ndarray, " k"]
    member: Int[np.ndarray, " k"]
    representative: Int[np.ndarray, " g"]
    n_arrangements: float

    def draw(self, rng: np.random.Generator) -> Int[np.ndarray, " k"]:
        """Return for every kept row the row whose factors it gets."""
        dealt = self.representative[rng.permutation(self.representative.size)]
        return dealt[self.member]


def plan_shuffle(factors: Factors, groups: Int[np.ndarray, " n"] | None = None) -> FactorShuffle:
    """Return how the factors of rows may be shuffled, given the group of every row."""
    n_rows = len(factors.values)
    everyone = np.arange(n_rows)
    if groups is None:
        groups = everyone
    names, representative, member = np.unique(groups, return_index=True, return_inverse=True)
    if names.size == n_rows:
        # Every row is a group of its own.
        return FactorShuffle("rows", everyone, everyone, everyone, _count(factors, everyone))
    arrangements = _count(factors, representative)
    return FactorShuffle("groups", everyone, member, representative, arrangements)


def is_constant_in(factors: Factors, groups: Int[np.ndarray, " n"]) -> bool:
    """Tell whether all rows of every group have the same factors."""
    _, representative, member = np.unique(groups, return_index=True, return_inverse=True)
    return bool((factors.values == factors.values[representative][member]).all())


def _count(factors: Factors, rows: Int[np.ndarray, " g"]) -> float:
    """Count the ways to deal the factors of these rows to them that can be told apart."""
    _, repeats = np.unique(factors.values[rows], axis=0, return_counts=True)
    exponent = math.lgamma(rows.size + 1) - sum(math.lgamma(k + 1) for k in repeats.tolist())
    return float(round(math.exp(exponent))) if exponent < 30 else math.inf
