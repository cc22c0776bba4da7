"""What is known of one pair before its maps are fitted: rows, moments and the ICA of both sides."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from repalign.aliases import Rows
from repalign.core.maps.affine import MappedRows
from repalign.core.moment_sums import Parts
from repalign.core.moments import PairMoments, cross_moments, leave_one_out, merge_all
from repalign.workflows.compare.pairs import Pair
from repalign.workflows.compare.settings import CompareSettings
from repalign.workflows.compare.space import (
    IcaRows,
    Scale,
    Space,
    SpaceIca,
    leading_components,
    map_source,
)
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
        scales: Diameter and 99 % distance of the rows of a side, where they are known.
    """

    aligned: Pair
    source: Rows
    target: Rows
    parts: tuple[PairMoments, ...]
    ica: IcaOfSides
    scales: Mapping[int, Scale] = field(default_factory=dict)

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
            aligned=self.aligned.reversed(),
            source=self.target,
            target=self.source,
            parts=tuple(part.swapped() for part in self.parts),
            ica={(1 - side, on): fit for (side, on), fit in self.ica.items()},
            scales={1 - side: scale for side, scale in self.scales.items()},
        )


def read_pair(
    aligned: Pair,
    spaces: tuple[Space, Space],
    settings: CompareSettings,
    machine: Machine,
    rows: tuple[Rows, Rows],
) -> PairData:
    """Pass over the rows once for their cross products; the moments of both sides are known."""
    split = Parts(aligned.split.part_of_row, aligned.split.n_parts)
    moments = spaces[0].moments, spaces[1].moments
    parts = cross_moments(*rows, split, moments, **machine.limits("moments"))
    ica = {(side, on): fit for side, space in enumerate(spaces) for on, fit in space.ica.items()}
    scales = {side: space.scale for side, space in enumerate(spaces) if space.scale is not None}
    pair = PairData(aligned, *rows, parts, ica, scales)
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
        scales={side: scale for side, scale in pair.scales.items() if side == 1},
    )
