"""The aligned rows of one pair, which of them belong together, and how they are split."""

from dataclasses import dataclass, replace

import numpy as np

from repalign.aliases import IntArray, Rows
from repalign.core.inference.splits import Split, fold_split, held_out_split, no_split
from repalign.core.maps.affine import AffineMap, MappedRows
from repalign.core.moments import PairMoments, pair_moments
from repalign.core.whitening import fit_whitening
from repalign.exceptions import InputError
from repalign.store.joining.index import RowIndex
from repalign.store.joining.join import Join
from repalign.workflows.compare.settings import CompareSettings
from repalign.workflows.machine import Machine


@dataclass(frozen=True)
class SpaceKey:
    """What a space is: content, the pair whose common rows were chosen, and the width cut to."""

    fingerprint: str
    common: tuple[str, str] | None
    width: int | None = None


@dataclass(frozen=True, eq=False)
class PairRows:
    """Rows of source and target, the same inputs in the same order.

    Attributes:
        source: Rows to map from.
        target: Rows to map to.
        groups: Number of the group of every row; rows of one group are split together and
            drawn together.
        split: Which rows fit and which judge.
        parts: Moments of every part of the split.
        join: How the rows were matched.
        space_keys: Names of the two spaces with these rows, equal where the content is, for
            results kept between pairs.
    """

    source: Rows
    target: Rows
    groups: IntArray
    split: Split
    parts: tuple[PairMoments, ...]
    join: Join
    space_keys: tuple[SpaceKey, SpaceKey]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.source.shape[0]

    def reversed(self) -> "PairRows":
        """Return the opposite direction."""
        return replace(
            self,
            source=self.target,
            target=self.source,
            parts=tuple(part.swapped() for part in self.parts),
            space_keys=(self.space_keys[1], self.space_keys[0]),
        )


def read_pair(
    join: Join, settings: CompareSettings, machine: Machine, groups: IntArray | None = None
) -> PairRows:
    """Split the joined rows and pass over them once for their moments.

    Raises:
        InputError: The widths differ and the policy refuses that, or there are too few groups.
    """
    source, target = join.source, join.target
    widths = (source.shape[1], target.shape[1])
    if widths[0] != widths[1] and settings.width_policy == "refuse":
        raise InputError(
            f"the source has {widths[0]} columns and the target {widths[1]}; expected equal "
            "widths (--widths refuse): use --widths zero-pad or pca"
        )
    members = row_groups(join.index) if groups is None else groups
    split = make_split(members, settings)
    parts = pair_moments(
        source,
        target,
        part_of_row=split.part_of_row,
        n_parts=split.n_parts,
        memory_bytes=machine.memory_bytes,
        device=machine.device,
        on_progress=machine.on_progress("moments"),
    )
    first, last = join.sources[0], join.sources[-1]
    common = None if join.report.is_complete else (first.name, last.name)
    keys = (SpaceKey(first.fingerprint, common), SpaceKey(last.fingerprint, common))
    pair = PairRows(source, target, members, split, parts, join, keys)
    if widths[0] != widths[1] and settings.width_policy == "pca":
        return _cut_to_common_width(pair)
    return pair


def row_groups(index: RowIndex) -> IntArray:
    """Return the group of every row: rows of one sample, such as the tokens of a document."""
    identity = index.sample if index.ids is None else index.ids
    _, members = np.unique(identity, return_inverse=True)
    return members.astype(np.int64)


def make_split(groups: IntArray, settings: CompareSettings) -> Split:
    """Return the split that the settings ask for."""
    if settings.n_folds:
        return fold_split(groups, settings.n_folds, settings.seed)
    if settings.held_out:
        return held_out_split(groups, settings.held_out, settings.seed)
    return no_split(len(groups))


def _cut_to_common_width(pair: PairRows) -> PairRows:
    """Replace the wider side by its leading principal components."""
    total = sum_of(pair.parts)
    width = min(total.source_dim, total.target_dim)
    if total.source_dim > width:
        cut = leading_components(total, width)
        return replace(
            pair,
            source=MappedRows(pair.source, cut),
            parts=tuple(_map_source(part, cut) for part in pair.parts),
            space_keys=(replace(pair.space_keys[0], width=width), pair.space_keys[1]),
        )
    return _cut_to_common_width(pair.reversed()).reversed()


def sum_of(parts: tuple[PairMoments, ...]) -> PairMoments:
    """Return the moments of all rows."""
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def leading_components(moments: PairMoments, width: int) -> AffineMap:
    """Return the orthogonal projection of the source onto its leading principal directions."""
    whitening = fit_whitening(
        moments.mean_x, moments.sxx / moments.n, epsilon=moments.epsilon_x, max_rank=width
    )
    directions = whitening.matrix.T * np.sqrt(whitening.variances)
    return AffineMap(kind="pca", matrix=directions, shift=-moments.mean_x @ directions)


def _map_source(moments: PairMoments, cut: AffineMap) -> PairMoments:
    """Return the moments of the rows after the source went through an affine map."""
    return replace(
        moments,
        mean_x=moments.mean_x @ cut.matrix + cut.shift,
        sxx=cut.matrix.T @ moments.sxx @ cut.matrix,
        sxy=cut.matrix.T @ moments.sxy,
    )
