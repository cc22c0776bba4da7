"""Paired rows in parts, with what fits maps and measures: the one thing that resampling changes.

A null is the same sample with the target's rows in other orders, a half-sample some of its groups,
a fold one of its parts left out. What is evaluated does not know which.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from repalign.aliases import Rows
from repalign.core.ica.components import IcaFit
from repalign.core.moments import PairMoments, leave_one_out, merge_all, pair_moments
from repalign.core.resampling.groups import Split, no_split, sample_groups
from repalign.core.resampling.permutations import Arrangements
from repalign.core.rows import ArrayRows, SubsetRows

# A mean norm over this many rows is known to well under a percent; the maps see all rows.
MAX_JUDGED = 4000
# Multiplications of one map that are cheap enough to judge on more rows than that.
CHEAP = 5e8
_BLOCK_ROWS = 4096

# Starts of the ICA of source and target, the best first.
IcaStarts = tuple[Sequence[IcaFit], Sequence[IcaFit]]


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows of both sides of a pair, in parts that are left out in turn.

    Attributes:
        source: Rows to map from.
        target: Rows to map to, the same inputs in the same order.
        split: Which part every row belongs to, and which parts judge.
        groups: Group of every row; groups stay together.
        places: Place of every row among the inputs, wherever the rows stand.
        is_ordered: Whether the rows of a group stand in an order that means something.
        moments: Of every part.
        ica: By the part that is left out, None for none.
        judging: Numbers of the rows that judge; None for all.
        order: The order of the target's rows, where they are shuffled.
        base: The sample as it was before it was shuffled.
        known: What is remembered of these rows, such as neighbours; shuffles share it.
        fits: What is remembered of these moments.
    """

    source: Rows
    target: Rows
    split: Split
    groups: Int[np.ndarray, " n"]
    places: Int[np.ndarray, " n"]
    is_ordered: bool
    moments: tuple[PairMoments, ...]
    ica: Mapping[int | None, IcaStarts] = field(default_factory=dict)
    judging: Int[np.ndarray, " j"] | None = None
    order: Int[np.ndarray, " n"] | None = None
    base: "Sample | None" = None
    known: dict[Any, Any] = field(default_factory=dict)
    fits: dict[Any, Any] = field(default_factory=dict, init=False)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.groups.size

    @property
    def dims(self) -> tuple[int, int]:
        """Widths of source and target."""
        return self.source.shape[1], self.target.shape[1]

    @cached_property
    def total(self) -> PairMoments:
        """Moments of all rows."""
        return merge_all(self.moments)

    @cached_property
    def _others(self) -> tuple[PairMoments, ...]:
        return leave_one_out(self.moments)

    def moments_without(self, part: int | None) -> PairMoments:
        """Return the moments of all rows but those of one part."""
        return self.total if part is None else self._others[part]

    def rows_without(self, part: int | None) -> tuple[Rows, Rows]:
        """Return all rows but those of one part."""
        if part is None:
            return self.source, self.target
        numbers = self.split.fitting_rows(part)
        return SubsetRows(self.source, numbers), SubsetRows(self.target, numbers)

    def rows_in(self, part: int | None) -> tuple[Rows, Rows]:
        """Return the rows of one part that judge; of all parts without one."""
        numbers = self.judging
        if part is not None and numbers is None:
            numbers = self.split.judged_rows(part)
        elif part is not None and numbers is not None:
            numbers = numbers[self.split.part_of_row[numbers] == part]
        if numbers is None:
            return self.source, self.target
        return SubsetRows(self.source, numbers), SubsetRows(self.target, numbers)

    @property
    def n_of_judged_parts(self) -> Int[np.ndarray, " parts"]:
        """Rows of every part that judges."""
        return np.array([self.moments[part].n for part in self.split.judged])

    def choose_groups(self, n_rows: int, seed: int) -> Int[np.ndarray, " m"]:
        """Return about so many rows that are whole groups, drawn in every part."""
        return sample_groups(
            self.groups, self.split.part_of_row, n_rows, is_ordered=self.is_ordered, seed=seed
        )

    def loaded(self, chosen: Int[np.ndarray, " m"]) -> "Sample":
        """Return some of the rows, in memory; the moments stay those of all rows."""
        return replace(
            self,
            source=ArrayRows(self.source.take(chosen)),
            target=ArrayRows(self.target.take(chosen)),
            split=self.split.rows(chosen),
            groups=self.groups[chosen],
            places=self.places[chosen],
            known=self.known if chosen.size == self.n_rows else {},
        )

    def subset(
        self,
        chosen: Int[np.ndarray, " m"],
        moments: tuple[PairMoments, ...],
        ica: Mapping[int | None, IcaStarts],
    ) -> "Sample":
        """Return some of the rows, such as a half of the groups, with their moments and ICA."""
        in_memory = self.known.get(None)
        return replace(
            self,
            source=SubsetRows(self.source, chosen),
            target=SubsetRows(self.target, chosen),
            split=self.split.rows(chosen),
            groups=self.groups[chosen],
            places=self.places[chosen],
            moments=moments,
            ica=ica,
            known={} if in_memory is None else {None: in_memory.chosen(chosen)},
        )

    def reversed(self) -> "Sample":
        """Return the opposite direction, without ICA: each direction has its own."""
        return replace(
            self,
            source=self.target,
            target=self.source,
            moments=tuple(moments.swapped() for moments in self.moments),
            ica={},
            known={},
        )

    def unsplit(self) -> "Sample":
        """Return the same rows in one part."""
        return replace(self, split=no_split(self.n_rows), moments=(self.total,))

    def kept(self, arrangements: Arrangements, rng: np.random.Generator) -> "Sample":
        """Return the rows that can change places, in memory, some of which judge."""
        movable = arrangements.kept
        sample = self if movable.size == self.n_rows else self.loaded(movable)
        moments = pair_moments(
            sample.source,
            sample.target,
            part_of_row=sample.split.part_of_row,
            n_parts=sample.split.n_parts,
        )
        p, q = self.dims
        share = min(1.0, max(MAX_JUDGED, int(CHEAP / (p * q))) / movable.size)
        by_part = []
        for part in range(sample.split.n_parts):
            rows = sample.split.judged_rows(part)
            by_part.append(rows[rng.permutation(rows.size)[: max(1, round(share * rows.size))]])
        judging = np.sort(np.concatenate(by_part))
        is_all = judging.size == movable.size
        return replace(sample, moments=moments, judging=None if is_all else judging)

    def shuffled(self, order: Int[np.ndarray, " n"]) -> "Sample":
        """Return the sample with the target's rows in an order: only cross products change."""
        return replace(
            self,
            target=SubsetRows(self.target, order),
            moments=tuple(
                replace(moments, sxy=self._cross(part, moments, order))
                for part, moments in enumerate(self.moments)
            ),
            order=order,
            base=self,
        )

    def _cross(
        self, part: int, moments: PairMoments, order: Int[np.ndarray, " n"]
    ) -> Float[np.ndarray, "p q"]:
        """Return the cross products of a part with the target's rows in an order.

        In blocks, so that no second copy of the rows in double precision is held.
        """
        rows = self.split.judged_rows(part)
        cross = np.zeros_like(moments.sxy)
        for start in range(0, rows.size, _BLOCK_ROWS):
            block = rows[start : start + _BLOCK_ROWS]
            centred = self.target.take(order[block]) - moments.mean_y
            cross += (self.source.take(block) - moments.mean_x).T @ centred
        return cross
