"""Two spaces whose rows belong together and how these are split, before a value is read."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from repalign.aliases import IntArray
from repalign.core.inference.splits import Split, fold_split, held_out_split, no_split
from repalign.core.maps.affine import AffineMap
from repalign.core.moments import PairMoments
from repalign.core.whitening import fit_whitening
from repalign.exceptions import InputError
from repalign.store.joining.index import POOLED, RowIndex
from repalign.store.joining.join import Join
from repalign.store.joining.report import JoinReport
from repalign.workflows.compare.settings import CompareSettings
from repalign.workflows.compare.space import Space, digest


@dataclass(frozen=True, eq=False)
class AlignedPair:
    """Two spaces with the same inputs in the same order; it can be sent to another process.

    Attributes:
        spaces: Source and target.
        groups: Number of the group of every row; rows of one group are split together and
            drawn together.
        split: Which rows fit and which judge.
        index: Identity of the rows.
        report: How the rows were matched.
    """

    spaces: tuple[Space, Space]
    groups: IntArray
    split: Split
    index: RowIndex
    report: JoinReport

    @property
    def dims(self) -> tuple[int, int]:
        """Widths of source and target."""
        return self.spaces[0].dim, self.spaces[1].dim

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.spaces[0].n_rows

    @property
    def is_ordered(self) -> bool:
        """Whether the rows of a group stand in an order: the tokens of a sample."""
        return bool(np.any(self.index.token != POOLED))

    @cached_property
    def split_key(self) -> str:
        """Name of the split: equal where the same rows are in the same parts."""
        return digest(self.split.part_of_row) if self.split.judged else "whole"

    def common_width(self, settings: CompareSettings) -> int | None:
        """Return the width that the wider side is cut to, None where nothing is cut."""
        is_cut = settings.width_policy == "pca" and self.dims[0] != self.dims[1]
        return min(self.dims) if is_cut else None


def align(
    join: Join, settings: CompareSettings, grouped: tuple[IntArray, Split] | None = None
) -> AlignedPair:
    """Return the first and the last source of a join as a pair, with its groups and its split.

    Raises:
        InputError: The widths differ and the policy refuses that, or there are too few groups.
    """
    widths = (join.source.shape[1], join.target.shape[1])
    if widths[0] != widths[1] and settings.width_policy == "refuse":
        raise InputError(
            f"the source has {widths[0]} columns and the target {widths[1]}; expected equal "
            "widths (--widths refuse): use --widths zero-pad or pca"
        )
    if grouped is None:
        groups = row_groups(join.index)
        grouped = groups, make_split(groups, settings)
    spaces = tuple(Space(join.sources[end], join.positions[end], join.rows[end]) for end in (0, -1))
    return AlignedPair(
        spaces=(spaces[0], spaces[1]),
        groups=grouped[0],
        split=grouped[1],
        index=join.index,
        report=join.report,
    )


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


def leading_components(moments: PairMoments, width: int) -> AffineMap:
    """Return the orthogonal projection of the source onto its leading principal directions."""
    whitening = fit_whitening(
        moments.mean_x, moments.sxx / moments.n, epsilon=moments.epsilon_x, max_rank=width
    )
    directions = whitening.matrix.T * np.sqrt(whitening.variances)
    return AffineMap(kind="pca", matrix=directions, shift=-moments.mean_x @ directions)
