"""Which rows belong together: groups from the samples, a column of the table, or a file."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repalign.aliases import IntArray
from repalign.arguments import check_path, listed
from repalign.comparison.pairs import group_numbers
from repalign.core.resampling.intervals import effective_groups
from repalign.data.factors import ColumnTable
from repalign.data.files import read_text
from repalign.exceptions import InputError
from repalign.store.joining.index import POOLED
from repalign.store.sources.source import EmbeddingSource

Groups = str | Path | Iterable[Any] | None


@dataclass(frozen=True, eq=False)
class RowGroups:
    """Group of every row, from 0, and whether the rows of a group stand in a meaningful order."""

    member: IntArray
    is_ordered: bool = False

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return int(self.member.max()) + 1

    @property
    def worth(self) -> float:
        """As many groups of one size as the unequal ones are worth."""
        return effective_groups(np.bincount(self.member))

    @property
    def has_groups(self) -> bool:
        """Whether any group has two rows."""
        return self.n_groups < self.member.size

    def take(self, rows: IntArray) -> "RowGroups":
        """Return the groups of some rows."""
        return RowGroups(_numbered(self.member[rows]), self.is_ordered)


def open_groups(groups: Groups, table: ColumnTable) -> str | Sequence[Any] | None:
    """Return the name of a column of the table, or a group for every row of the embeddings.

    Raises:
        InputError: a name that is neither a file nor a column.
    """
    if groups is None:
        return None
    if not isinstance(groups, str | Path):
        return listed("groups", groups, "groups, one a row")
    check_path("groups", groups)
    if str(groups) in table.columns:
        return str(groups)
    if not Path(groups).is_file():
        raise InputError(
            f"groups: {str(groups)!r} is neither a file with a group a line nor a column of "
            f"{table.source}, which has {', '.join(table.columns)}"
        )
    return read_text(Path(groups)).splitlines()


def sample_groups(source: EmbeddingSource, rows: IntArray) -> RowGroups:
    """Group some rows of embeddings by their sample: the tokens of a text, say."""
    index = source.index
    identity = index.sample if index.ids is None else index.ids
    return RowGroups(_numbered(identity[rows]), bool((index.token[rows] != POOLED).any()))


def given_groups(groups: Sequence[Any], source: EmbeddingSource, rows: IntArray) -> RowGroups:
    """Group some rows of embeddings by the labels that were given for all.

    Raises:
        InputError: not one group for every row.
    """
    return RowGroups(_numbered(group_numbers(groups, source)[rows]))


def column_groups(values: NDArray[Any]) -> RowGroups:
    """Group rows by the values of a column."""
    return RowGroups(_numbered(values))


def draw_rows(groups: RowGroups, wanted: int, seed: int) -> IntArray:
    """Draw about so many rows at random, ascending: whole groups, never more than wanted.

    The first group drawn stays whole whatever its size.
    """
    rng = np.random.default_rng(seed)
    if not groups.has_groups:
        return np.sort(rng.choice(groups.member.size, wanted, replace=False))
    order = rng.permutation(groups.n_groups)
    sizes = np.bincount(groups.member)[order]
    n_drawn = max(1, int(np.searchsorted(np.cumsum(sizes), wanted, side="right")))
    return np.flatnonzero(np.isin(groups.member, order[:n_drawn]))


def _numbered(labels: NDArray[Any]) -> IntArray:
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)
