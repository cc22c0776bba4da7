"""The measures of a pair and what they are without each group.

A measure that fits something to the pairing is judged in-sample and on held-out rows. One that
fits nothing has nothing to hold out: it is computed once, on all rows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from repalign.aliases import FloatArray, IntArray, Rows
from repalign.core.inference.jackknife import (
    Replicates,
    bundle_of_rows,
    count_groups,
    delete_half,
    effective_groups,
)
from repalign.core.inference.splits import Bundles, Split
from repalign.core.moments import (
    PairMoments,
    leave_one_out,
    merge_all,
    moments_by_bundle,
    pair_moments,
)
from repalign.core.similarity.canonical import FittingMoments
from repalign.core.similarity.evidence import Evidence
from repalign.core.similarity.held_rows import HeldRows, hold
from repalign.core.similarity.measures import Measure, Reads


@dataclass(frozen=True, eq=False)
class JudgedRows:
    """The rows of a pair on which some measures are computed: all of them, or whole groups.

    Attributes:
        source: Rows of the source.
        target: Rows of the target.
        parts: Moments of every part of the split.
        split: How these rows are split.
        groups: Group of every row.
        places: Place of every row among the inputs of the pair.
        is_ordered: Rows of a group stand in an order that means something.
        bundles: Bundles of the groups, whose half-samples give intervals; None for no intervals.
    """

    source: Rows
    target: Rows
    parts: tuple[PairMoments, ...]
    split: Split
    groups: IntArray
    places: IntArray
    is_ordered: bool
    bundles: Bundles | None = None

    @cached_property
    def total(self) -> PairMoments:
        """Moments of all these rows."""
        return merge_all(self.parts)

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.groups)


@dataclass(frozen=True, eq=False)
class SplitValues:
    """Values of measures on the rows of one kind of split.

    Attributes:
        split: ``in-sample`` or ``held-out``.
        values: By measure, in order; NaN where too few rows define none.
        replicates: The same without each group (held-out), or on half-samples; None for none.
        n_rows: Rows that judge.
        n_fit_rows: Rows that fit what is fitted.
        n_groups: Groups that judge.
    """

    split: str
    values: FloatArray
    replicates: Replicates | None
    n_rows: int
    n_fit_rows: int
    n_groups: int


class MeasureJudge:
    """Computes measures that read the same of the same rows."""

    def __init__(
        self,
        measures: Sequence[Measure],
        reads: Reads,
        rows: JudgedRows,
        *,
        seed: int,
        memory_bytes: int,
    ) -> None:
        self.measures = tuple(measures)
        self.reads = reads
        self.rows = rows
        self._seed = seed
        self.memory_bytes = memory_bytes

    @cached_property
    def held(self) -> HeldRows | None:
        """All rows in memory, where these measures read rows."""
        if self.reads == "moments":
            return None
        n = self.rows.n
        source, target = self.rows.source.read(0, n), self.rows.target.read(0, n)
        return hold(source, target, memory_bytes=self.memory_bytes, seed=self._seed)

    def in_sample(self) -> SplitValues:
        """Judge on the rows that fit."""
        rows = self.rows
        evidence = Evidence(FittingMoments.of(rows.total), rows=self.held)
        values = self._values(evidence)
        return SplitValues(
            split="in-sample",
            values=values,
            replicates=self._half_samples(values),
            n_rows=rows.n,
            n_fit_rows=rows.n,
            n_groups=int(np.count_nonzero(np.bincount(rows.groups))),
        )

    def held_out(self, n_left_out: int) -> SplitValues:
        """Judge every part by what was fitted on the others; the mean over rows of all parts."""
        rows, split = self.rows, self.rows.split
        rest = leave_one_out(rows.parts)
        parts = [self._part(part, rest[part]) for part in split.judged]
        judged = np.concatenate([split.judged_rows(part) for part in split.judged])
        sizes = np.array([split.judged_rows(part).size for part in split.judged], dtype=float)
        by_part = np.stack([self._values(evidence) for evidence in parts])
        values = np.average(by_part, axis=0, weights=sizes)
        groups = rows.groups[judged]
        replicates = None
        if n_left_out:
            bundle = bundle_of_rows(groups, n_left_out, seed=self._seed)
            without = self._held_out_without(parts, by_part, sizes, bundle)
            n_effective = effective_groups(np.bincount(bundle))
            count = count_groups(groups)
            replicates = Replicates(values, without, "delete-a-group", count, n_effective)
        return SplitValues(
            split="held-out",
            values=values,
            replicates=replicates,
            n_rows=judged.size,
            n_fit_rows=rest[split.judged[0]].n,
            n_groups=int(np.count_nonzero(np.bincount(groups))),
        )

    def _values(self, evidence: Evidence) -> FloatArray:
        return np.array([measure.value(evidence) for measure in self.measures])

    def _part(self, part: int, rest: PairMoments) -> Evidence:
        split, held = self.rows.split, self.held
        return Evidence(
            FittingMoments.of(rest),
            self.rows.parts[part],
            None if held is None else held.chosen(split.judged_rows(part)),
            None if held is None else held.chosen(split.fitting_rows(part)),
        )

    def _half_samples(self, values: FloatArray) -> Replicates | None:
        """Return the values on half-samples of the groups."""
        rows, bundles = self.rows, self.rows.bundles
        if bundles is None:
            return None
        bundle_of_row, n_bundles = bundles.split.part_of_row, bundles.split.n_parts
        moments = pair_moments(
            rows.source, rows.target, part_of_row=bundle_of_row, n_parts=n_bundles
        )
        draws = np.empty((len(bundles.samples), values.size))
        for draw, sample in zip(draws, bundles.samples, strict=True):
            chosen = np.flatnonzero(np.isin(bundle_of_row, sample))
            held = None if self.held is None else self.held.chosen(chosen)
            fitted = FittingMoments.of(merge_all(tuple(moments[bundle] for bundle in sample)))
            draw[:] = self._values(Evidence(fitted, rows=held))
        return delete_half(values, draws, rows.groups)

    def _held_out_without(
        self,
        parts: Sequence[Evidence],
        by_part: FloatArray,
        sizes: FloatArray,
        bundle: IntArray,
    ) -> FloatArray:
        """Return the values without each bundle of judged rows; what was fitted stays."""
        n_bundles = int(bundle.max()) + 1
        found = np.tile(by_part, (n_bundles, 1, 1))
        weights = np.tile(sizes, (n_bundles, 1))
        for place, (number, rest) in self._judged_without(parts, bundle):
            found[number, place] = self._values(rest)
            weights[number, place] = rest.moments.n
        share = weights / np.maximum(weights.sum(axis=1, keepdims=True), 1)
        return np.einsum("bp,bpm->bm", share, np.where(share[:, :, None] > 0, found, 0.0))

    def _judged_without(
        self, parts: Sequence[Evidence], bundle: IntArray
    ) -> Iterator[tuple[int, tuple[int, Evidence]]]:
        """Yield each part without each bundle that has rows in it."""
        split, start = self.rows.split, 0
        for place, (part, whole) in enumerate(zip(split.judged, parts, strict=True)):
            positions = split.judged_rows(part)
            inside = bundle[start : start + positions.size]
            start += positions.size
            labels, member = np.unique(inside, return_inverse=True)
            source, target = self.rows.source, self.rows.target
            for number, own in moments_by_bundle(source, target, member, among=positions):
                if own.n == whole.moments.n:
                    continue
                rows = (
                    None
                    if whole.rows is None
                    else whole.rows.chosen(np.flatnonzero(member != number))
                )
                rest = Evidence(whole.fit, whole.moments.subtract(own), rows, whole.fit_rows)
                yield place, (int(labels[number]), rest)
