"""Which shuffles of the rows leave everything but the pairing as it was.

Under the null hypothesis that two representations have nothing to do with each other, the
target's rows may stand in any other order that is as probable as the given one. Rows that belong
together (the tokens of a document, the wells of a plate) are alike, and stay together in every
such order: whole groups change places, among groups of one size. Groups of other sizes are cut to
runs of like sizes, and those of a run to its smallest, for the observed order and for the shuffled
ones alike.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations, product

import numpy as np
from jaxtyping import Int

from repalign.core.resampling.groups import Split

# With fewer orders than 5! no order could be improbable enough for a p-value worth the name.
FEWEST_ARRANGEMENTS = 120
# Beyond this many they are as good as endless, and draws at random as good as distinct.
COUNTED = 10**12


@dataclass(frozen=True, eq=False)
class Arrangements:
    """All orders of the kept rows in which units of one run have changed places.

    Attributes:
        kept: Rows that take part, ascending.
        runs: Of every run its units, one a line: where the unit's rows stand in ``kept``.
        n_rows: Rows there were to choose from.
        n_units: Units (groups, or single rows) there were.
        count: How many arrangements there are with the given one; ``COUNTED`` stands for more.
    """

    kept: Int[np.ndarray, " kept"]
    runs: tuple[Int[np.ndarray, "_ _"], ...]
    n_rows: int
    n_units: int
    count: int

    @property
    def n_moving(self) -> int:
        """Units that change places; the others are alone in their run and stay paired."""
        return sum(len(run) for run in self.runs if len(run) > 1)

    @property
    def is_sufficient(self) -> bool:
        """Whether there are enough arrangements for a p-value."""
        return self.count >= FEWEST_ARRANGEMENTS

    def n_shuffles(self, wanted: int) -> int:
        """Return how many shuffles there will be where so many are wanted."""
        return min(wanted, self.count - 1)

    def smallest_p(self, wanted: int) -> float:
        """Return the smallest p-value that so many shuffles can attain."""
        return 1 / (self.n_shuffles(wanted) + 1)

    def shuffles(self, wanted: int, rng: np.random.Generator) -> Iterator[Int[np.ndarray, " kept"]]:
        """Yield distinct orders of the kept rows, never the given one.

        Where there are no more than ``wanted`` all of them, else that many at random: in both
        cases (b + 1) / (m + 1) of m shuffles is an exact p-value.
        """
        orders = self._every() if self.count - 1 <= wanted else self._random(wanted, rng)
        for order in orders:
            rows = np.arange(self.kept.size)
            for run, units in zip(self.runs, order, strict=True):
                rows[run] = run[units]
            yield rows

    def _every(self) -> Iterator[tuple[Int[np.ndarray, " _"], ...]]:
        choices = product(*(permutations(range(len(run))) for run in self.runs))
        next(choices)
        for choice in choices:
            yield tuple(np.array(units) for units in choice)

    def _random(
        self, wanted: int, rng: np.random.Generator
    ) -> Iterator[tuple[Int[np.ndarray, " _"], ...]]:
        identity = tuple(np.arange(len(run)) for run in self.runs)
        seen = {_key(identity)}
        while len(seen) <= wanted:
            order = tuple(rng.permutation(len(run)) for run in self.runs)
            key = _key(order) if self.count < COUNTED else str(len(seen)).encode()
            if key not in seen:
                seen.add(key)
                yield order


def _key(order: Sequence[Int[np.ndarray, " _"]]) -> bytes:
    return b"".join(units.astype(np.int32).tobytes() for units in order)


def order_name(places: Int[np.ndarray, " kept"], order: Int[np.ndarray, " kept"]) -> str:
    """Name an order by which inputs it pairs, given the place of every row among the inputs."""
    numbers = places.astype("<i8")
    pairs = np.stack([numbers, numbers[order]])[:, np.argsort(numbers)]
    return hashlib.sha256(pairs.tobytes()).hexdigest()[:16]


def arrange(
    units: Int[np.ndarray, " n"],
    *,
    blocks: Int[np.ndarray, " n"],
    is_ordered: bool = True,
    seed: int = 0,
) -> Arrangements:
    """Return the arrangements in which units change places with units of their own block.

    With groups as units and the parts of a split as blocks, this is the null of no relation at
    all; with single rows as units and the groups as blocks, that of no relation beyond the group.
    Without groups every row is a unit, and the arrangements are all orders of the rows.

    Args:
        units: Unit of every row: rows of one unit keep together and in order.
        blocks: Block of every row, the same for all rows of a unit.
        is_ordered: Rows of a unit stand in an order that means something (tokens of a text); of
            longer units the first rows are kept then, else a random choice.
        seed: Of that choice.
    """
    labels, member, sizes = np.unique(units, return_inverse=True, return_counts=True)
    by_unit = np.argsort(member, kind="stable")
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    block_of_unit = blocks[by_unit[starts]]
    rng = np.random.default_rng(seed)
    chosen = []
    for block in np.unique(block_of_unit):
        inside = np.flatnonzero(block_of_unit == block)
        for run in _runs_of_like_size(sizes[inside]):
            numbers = inside[run]
            size = int(sizes[numbers].min())
            rows = starts[numbers][:, None] + np.arange(size)
            if not is_ordered:
                for line in np.flatnonzero(sizes[numbers] > size):
                    number = numbers[line]
                    any_of = rng.choice(sizes[number], size, replace=False)
                    rows[line] = starts[number] + np.sort(any_of)
            chosen.append(by_unit[rows])
    kept = np.sort(np.concatenate([run.ravel() for run in chosen]))
    runs = tuple(np.searchsorted(kept, run) for run in chosen)
    return Arrangements(kept, runs, units.size, labels.size, _count(runs))


def _runs_of_like_size(sizes: Int[np.ndarray, " units"]) -> list[Int[np.ndarray, " _"]]:
    """Cut units, sorted by falling size, into runs of most moving rows, and return their numbers.

    A run of k units of at least s rows moves (k − 1)·s rows; the cut of the largest sum is found
    by dynamic programming over the different sizes. It depends on the sizes only.
    """
    falling = np.argsort(-sizes, kind="stable")
    values, counts = np.unique(-sizes, return_counts=True)
    ends = np.concatenate([[0], np.cumsum(counts)])
    best, cut = np.zeros(len(ends)), np.zeros(len(ends), dtype=np.int64)
    for j in range(1, len(ends)):
        gains = best[:j] + (ends[j] - ends[:j] - 1) * -values[j - 1]
        cut[j] = int(gains.argmax())
        best[j] = gains[cut[j]]
    runs = []
    j = len(ends) - 1
    while j > 0:
        runs.append(falling[ends[cut[j]] : ends[j]])
        j = int(cut[j])
    return runs[::-1]


def _count(runs: Sequence[Int[np.ndarray, "_ _"]]) -> int:
    count = 1
    for run in runs:
        for factor in range(2, len(run) + 1):
            count *= factor
            if count >= COUNTED:
                return COUNTED
    return count


@dataclass(frozen=True, eq=False)
class ShufflePlan:
    """Which rows may change places, in-sample and held-out.

    Attributes:
        split: The split of all rows.
        within: Units change places within their part of the split. Only the cross products
            change then: the ICA of every side, its covariance and its mean stay.
        across: They change places over the parts, for in-sample errors only, where the parts
            leave too few arrangements; None where they are enough.
    """

    split: Split
    within: Arrangements
    across: Arrangements | None


def plan_shuffles(
    groups: Int[np.ndarray, " n"],
    split: Split,
    *,
    beyond_groups: bool = False,
    is_ordered: bool = True,
    seed: int = 0,
) -> ShufflePlan:
    """Return what may be shuffled: whole groups, or with ``beyond_groups`` rows inside them.

    The first tests whether the pairing matters at all, the second whether it matters beyond the
    group, and takes the rows of a group for exchangeable: it is not for rows that stand in an
    order. ``is_ordered`` and ``seed`` are those of ``arrange``.
    """
    if beyond_groups:
        return ShufflePlan(split, arrange(np.arange(groups.size), blocks=groups), None)
    within = arrange(groups, blocks=split.part_of_row, is_ordered=is_ordered, seed=seed)
    if within.is_sufficient or split.n_parts == 1:
        return ShufflePlan(split, within, None)
    one_block = np.zeros_like(groups)
    across = arrange(groups, blocks=one_block, is_ordered=is_ordered, seed=seed)
    return ShufflePlan(split, within, across)
