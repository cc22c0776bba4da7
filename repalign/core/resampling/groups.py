"""Which rows fit a map and which rows judge it.

Rows that belong together (the tokens of a document, the wells of a plate) never stand on both
sides: a split draws groups, and every row follows its group.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush

import numpy as np
from jaxtyping import Int

from repalign.exceptions import InputError

# A sample of fewer groups than this is cut group by group before it is cut to fewer groups.
FEWEST_SAMPLED = 30
FEWEST_IN_PART = 5


@dataclass(frozen=True, eq=False)
class Split:
    """Every row has a part; each judged part is predicted by maps fitted on all other parts.

    With k folds there are k parts and all are judged; with a held-out share there are two
    parts, 0 to fit and 1 to judge. ``half_of_row`` divides every part into disjoint halves of its
    groups, on which the ICA of the two sides are fitted where held-out rows judge them.
    """

    part_of_row: Int[np.ndarray, " n"]
    n_parts: int
    judged: tuple[int, ...]
    half_of_row: Int[np.ndarray, " n"] | None = None

    def rows(self, chosen: Int[np.ndarray, " m"]) -> "Split":
        """Return the split of some of the rows; each part must keep one."""
        half = None if self.half_of_row is None else self.half_of_row[chosen]
        return Split(self.part_of_row[chosen], self.n_parts, self.judged, half)

    def with_halves(self, groups: Int[np.ndarray, " n"], seed: int) -> "Split":
        """Return the split with two disjoint halves of the groups of every part."""
        half_of_row = np.zeros(groups.size, dtype=np.int64)
        for part in range(self.n_parts):
            rows = np.flatnonzero(self.part_of_row == part)
            if np.unique(groups[rows]).size > 1:
                half_of_row[rows] = halving(groups[rows], (seed, part)).part_of_row
        return replace(self, half_of_row=half_of_row)

    def rows_of(self, parts: Sequence[int]) -> Int[np.ndarray, " m"]:
        """Return the rows of several parts, ascending."""
        return np.flatnonzero(np.isin(self.part_of_row, parts))

    def judged_rows(self, part: int) -> Int[np.ndarray, " m"]:
        """Return the rows of one part, ascending."""
        return np.flatnonzero(self.part_of_row == part)

    def fitting_rows(self, part: int) -> Int[np.ndarray, " m"]:
        """Return the rows that fit the maps which predict this part, ascending."""
        return np.flatnonzero(self.part_of_row != part)


def no_split(n_rows: int) -> Split:
    """Put all rows into one part that no other part could judge: in-sample only."""
    return Split(np.zeros(n_rows, dtype=np.int64), n_parts=1, judged=())


def held_out_split(groups: Int[np.ndarray, " n"], share: float, seed: int) -> Split:
    """Hold out about this share of the groups (at least one, never all).

    Raises:
        InputError: share outside (0, 1), or fewer than two groups.
    """
    if not 0 < share < 1:
        raise InputError(f"held-out share: got {share}, expected a number between 0 and 1")
    labels, member = _groups_of(groups, needed=2)
    n_held_out = min(max(round(share * labels), 1), labels - 1)
    held_out = np.random.default_rng(seed).permutation(labels)[:n_held_out]
    part_of_group = np.zeros(labels, dtype=np.int64)
    part_of_group[held_out] = 1
    return Split(part_of_group[member], n_parts=2, judged=(1,))


def fold_split(groups: Int[np.ndarray, " n"], n_folds: int, seed: int) -> Split:
    """Deal the groups at random into folds whose numbers of groups differ by at most one.

    Raises:
        InputError: fewer than two folds, or more folds than groups.
    """
    if n_folds < 2:
        raise InputError(f"folds: got {n_folds}, expected at least 2")
    labels, member = _groups_of(groups, needed=n_folds)
    order = np.random.default_rng(seed).permutation(labels)
    part_of_group = np.empty(labels, dtype=np.int64)
    part_of_group[order] = np.arange(labels) % n_folds
    return Split(part_of_group[member], n_parts=n_folds, judged=tuple(range(n_folds)))


def halving(groups: Int[np.ndarray, " n"], seed: int | Sequence[int]) -> Split:
    """Deal the groups at random into two halves of about as many rows; each can judge the other.

    Raises:
        InputError: fewer than two groups.
    """
    labels, member = _groups_of(groups, needed=2)
    sizes = np.bincount(member)
    order = np.random.default_rng(seed).permutation(labels)
    part_of_group = np.zeros(labels, dtype=np.int64)
    ahead = 0  # rows that the first half has more than the second
    for group, size in zip(order.tolist(), sizes[order].tolist(), strict=True):
        part_of_group[group] = ahead > 0
        ahead += -size if ahead > 0 else size
    return Split(part_of_group[member], n_parts=2, judged=(0, 1))


N_BUNDLES = 24
FEWEST_BUNDLES = 6


@dataclass(frozen=True, eq=False)
class Bundles:
    """Groups dealt into bundles, of which half-samples are made.

    Attributes:
        split: The rows with their bundles as parts.
        part_of_bundle: The part of the original split that a bundle belongs to.
        samples: By half-sample its bundles, half of those of every part.
    """

    split: Split
    part_of_bundle: tuple[int, ...]
    samples: tuple[tuple[int, ...], ...]

    def disjoint_halves(
        self, sample: tuple[int, ...], left_out: int
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return two disjoint halves of the bundles of a sample outside one part."""
        bundles = [bundle for bundle in sample if self.part_of_bundle[bundle] != left_out]
        return tuple(bundles[::2]), tuple(bundles[1::2])

    def inside(self, sample: tuple[int, ...], part: int) -> tuple[int, ...]:
        """Return the bundles of a sample in one part."""
        return tuple(bundle for bundle in sample if self.part_of_bundle[bundle] == part)


def bundle_groups(
    groups: Int[np.ndarray, " n"], split: Split, n_samples: int, seed: int
) -> Bundles | None:
    """Deal the groups of every part into bundles of about as many rows, and draw half-samples.

    Moments of half-samples are sums of those of bundles, so that rows are read once for all.
    None where a part has fewer than two groups.
    """
    bundle_of_row = np.zeros(groups.size, dtype=np.int64)
    by_part: list[list[int]] = []
    n_bundles = 0
    for part in range(split.n_parts):
        rows = np.flatnonzero(split.part_of_row == part)
        labels, member = np.unique(groups[rows], return_inverse=True)
        wanted = max(FEWEST_BUNDLES, round(N_BUNDLES * rows.size / groups.size))
        n_inside = min(wanted, labels.size)
        if n_inside < 2:
            return None
        bundle = _deal(np.bincount(member), n_inside, (seed, part))
        bundle_of_row[rows] = n_bundles + bundle[member]
        by_part.append(list(range(n_bundles, n_bundles + n_inside)))
        n_bundles += n_inside
    rng = np.random.default_rng((seed, split.n_parts))
    samples = []
    for _ in range(n_samples):
        drawn: list[int] = []
        for bundles in by_part:
            half = len(bundles) // 2 + (int(rng.integers(2)) if len(bundles) % 2 else 0)
            drawn += sorted(rng.permutation(bundles)[:half].tolist())
        samples.append(tuple(drawn))
    part_of_bundle = tuple(part for part, bundles in enumerate(by_part) for _ in bundles)
    return Bundles(Split(bundle_of_row, n_bundles, ()), part_of_bundle, tuple(samples))


def _deal(
    sizes: Int[np.ndarray, " groups"], n_bundles: int, seed: tuple[int, ...]
) -> Int[np.ndarray, " groups"]:
    """Deal groups in random order, each to the bundle with the fewest rows so far."""
    order = np.random.default_rng(seed).permutation(sizes.size)
    bundle = np.empty(sizes.size, dtype=np.int64)
    if sizes.min() == sizes.max():
        bundle[order] = np.arange(sizes.size) % n_bundles
        return bundle
    heap = [(0, number) for number in range(n_bundles)]
    for group in order.tolist():
        rows, number = heappop(heap)
        bundle[group] = number
        heappush(heap, (rows + int(sizes[group]), number))
    return bundle


def sample_groups(
    groups: Int[np.ndarray, " n"],
    parts: Int[np.ndarray, " n"],
    n_rows: int,
    *,
    is_ordered: bool = True,
    seed: int,
) -> Int[np.ndarray, " m"]:
    """Return about ``n_rows`` rows, ascending, that are whole groups drawn in every part.

    Where so few groups would fit that their number limits what can be said, more of them are
    drawn and the largest are cut: to their first rows where rows stand in an order that means
    something, else to any. A part gives at least one row of each group drawn in it, and so more
    than its share of ``n_rows`` where that is below the number of groups it needs.
    """
    if n_rows >= groups.size:
        return np.arange(groups.size)
    rng = np.random.default_rng(seed)
    chosen = []
    for part in np.unique(parts):
        rows = np.flatnonzero(parts == part)
        share = max(n_rows * rows.size // groups.size, 1)
        labels, member, sizes = np.unique(groups[rows], return_inverse=True, return_counts=True)
        order = rng.permutation(labels.size)
        n_whole = int(np.searchsorted(np.cumsum(sizes[order]), share, side="right"))
        fewest = max(FEWEST_SAMPLED * rows.size // groups.size, FEWEST_IN_PART)
        drawn = order[: max(n_whole, fewest)]
        # Rows of a group by their place in it, or by lot; a group gives those below the cap.
        place = np.arange(rows.size) if is_ordered else rng.permutation(rows.size)
        by_group = np.lexsort((place, member))
        place[by_group] = np.arange(rows.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        cap = int(sizes.max())
        if n_whole < drawn.size:
            cap = max(bisect_right(range(1, cap + 1), share, key=_rows_below(sizes[drawn])), 1)
        chosen.append(rows[np.isin(member, drawn) & (place < cap)])
    return np.sort(np.concatenate(chosen))


def _rows_below(sizes: Int[np.ndarray, " groups"]) -> Callable[[int], int]:
    """Return how many rows remain of groups that are cut to a size."""
    return lambda cap: int(np.minimum(sizes, cap).sum())


def _groups_of(groups: Int[np.ndarray, " n"], *, needed: int) -> tuple[int, Int[np.ndarray, " n"]]:
    """Return how many groups there are and the number of each row's group."""
    labels, member = np.unique(groups, return_inverse=True)
    if labels.size < needed:
        raise InputError(
            f"a split into {needed} parts needs at least {needed} groups, got {labels.size}; "
            "use fewer folds, or in-sample errors only (--split 0)"
        )
    return int(labels.size), member
