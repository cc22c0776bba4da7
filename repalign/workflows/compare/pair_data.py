"""What is known of one pair before its maps are fitted: rows, moments and the ICA of both sides."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from repalign.aliases import Rows
from repalign.core.maps.affine import AffineMap, MappedRows
from repalign.core.moment_sums import Parts
from repalign.core.moments import PairMoments, cross_moments, leave_one_out, merge_all
from repalign.workflows.compare.aligned import AlignedPair, leading_components
from repalign.workflows.compare.settings import CompareSettings
from repalign.workflows.compare.spaces import IcaRows, SpaceIca, SpreadOfSides
from repalign.workflows.machine import Machine

# By side (0 source, 1 target) and rows.
IcaOfSides = Mapping[tuple[int, IcaRows], SpaceIca]


@dataclass(frozen=True, eq=False)
class PairData:
    """One direction of a pair.

    Attributes:
        aligned: Who the rows are and how they are split.
        source: Rows to map from.
        target: Rows to map to, the same inputs in the same order.
        parts: Moments of every part of the split.
        ica: ICA of both sides, by side and rows.
        spreads: How far apart the rows of a side are, as far as it is known.
    """

    aligned: AlignedPair
    source: Rows
    target: Rows
    parts: tuple[PairMoments, ...]
    ica: IcaOfSides
    spreads: SpreadOfSides = field(default_factory=dict)

    @cached_property
    def total(self) -> PairMoments:
        """Moments of all rows."""
        return merge_all(self.parts)

    @cached_property
    def rest(self) -> tuple[PairMoments, ...]:
        """Moments of all rows without each part."""
        return leave_one_out(self.parts)

    def moments_without(self, part: int | None) -> PairMoments:
        """Return the moments of all rows but those of one part."""
        return self.total if part is None else self.rest[part]

    def reversed(self) -> "PairData":
        """Return the opposite direction."""
        return PairData(
            aligned=replace(self.aligned, spaces=self.aligned.spaces[::-1]),
            source=self.target,
            target=self.source,
            parts=tuple(part.swapped() for part in self.parts),
            ica={(1 - side, on): fit for (side, on), fit in self.ica.items()},
            spreads={1 - side: spread for side, spread in self.spreads.items()},
        )


def read_pair(
    aligned: AlignedPair,
    known: tuple[Sequence[PairMoments], Sequence[PairMoments]],
    ica: IcaOfSides,
    settings: CompareSettings,
    machine: Machine,
    rows: tuple[Rows, Rows] | None = None,
) -> PairData:
    """Pass over the rows once for their cross products; ``known`` are both sides' moments.

    ``rows`` are those of both sides, where they are in memory already.
    """
    source, target = rows or (aligned.spaces[0].rows, aligned.spaces[1].rows)
    split = Parts(aligned.split.part_of_row, aligned.split.n_parts)
    parts = cross_moments(source, target, split, known, **machine.limits("moments"))
    pair = PairData(aligned, source, target, parts, ica)
    width = aligned.common_width(settings)
    if width is None:
        return pair
    if aligned.dims[0] > width:
        return _cut_source(pair, width)
    return _cut_source(pair.reversed(), width).reversed()


def _cut_source(pair: PairData, width: int) -> PairData:
    """Replace the wider side by its leading principal components."""
    cut = leading_components(pair.total, width)
    return PairData(
        aligned=pair.aligned,
        source=MappedRows(pair.source, cut),
        target=pair.target,
        parts=tuple(map_source(part, cut) for part in pair.parts),
        ica=pair.ica,
        spreads={side: spread for side, spread in pair.spreads.items() if side == 1},
    )


def map_source(moments: PairMoments, cut: AffineMap) -> PairMoments:
    """Return the moments of the rows after the source went through an affine map."""
    return replace(
        moments,
        mean_x=moments.mean_x @ cut.matrix + cut.shift,
        sxx=cut.matrix.T @ moments.sxx @ cut.matrix,
        sxy=cut.matrix.T @ moments.sxy,
    )
