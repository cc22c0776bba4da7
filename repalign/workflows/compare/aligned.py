"""The two sides of a pair, whose rows belong together, and how these are split.

No value is read here. Both can be sent to another process.
"""

import contextlib
import hashlib
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from repalign.aliases import FloatArray, IntArray, Rows
from repalign.core.inference.splits import Split, fold_split, held_out_split, no_split
from repalign.core.maps.affine import AffineMap
from repalign.core.moments import PairMoments
from repalign.core.rows import ArrayRows
from repalign.core.whitening import fit_whitening
from repalign.exceptions import InputError
from repalign.store.joining.index import POOLED, RowIndex
from repalign.store.joining.join import Join
from repalign.store.joining.report import JoinReport
from repalign.store.rows.gathered import arrange_rows
from repalign.store.sources.opening import open_embeddings
from repalign.store.sources.source import EmbeddingSource
from repalign.workflows.compare.settings import CompareSettings


@dataclass(frozen=True)
class Elsewhere:
    """Stands for the rows of a file that another process had open."""

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    has_known_fingerprint: bool

    def read(self, start: int, stop: int) -> FloatArray:
        """Refuse: the file must be opened here first."""
        raise NotImplementedError("opened by Space.rows")

    def take(self, rows: IntArray) -> FloatArray:
        """Refuse: the file must be opened here first."""
        raise NotImplementedError("opened by Space.rows")


class Space:
    """The rows of a source that belong to a pair, in the pair's order.

    Sent to another process, a file goes by its name and is opened there, checked by its
    fingerprint; an array goes by value.

    Attributes:
        source: Where the rows come from.
        positions: Which of its rows; None for all in their own order.
    """

    def __init__(
        self, source: EmbeddingSource, positions: IntArray | None, rows: Rows | None = None
    ) -> None:
        self.source = source
        self.positions = positions
        if rows is not None:
            self.rows = rows

    @cached_property
    def rows(self) -> Rows:
        """The rows, opened at first use.

        Raises:
            InputError: The file is not any more what it was.
        """
        found = self.source.rows
        if isinstance(found, Elsewhere):
            found = _open_again(self.source, found)
        if self.positions is None:
            return found
        chunk_rows, label = self.source.chunk_rows, self.source.name
        return arrange_rows(found, self.positions, chunk_rows=chunk_rows, label=label)[0]

    @property
    def n_rows(self) -> int:
        """Number of rows of the pair."""
        return self.source.n_rows if self.positions is None else len(self.positions)

    @property
    def dim(self) -> int:
        """Number of columns."""
        return self.source.dim

    @cached_property
    def key(self) -> str:
        """Name of the content, its choice and its order, whatever they are called."""
        if self.positions is None:
            return self.source.fingerprint
        return f"{self.source.fingerprint}[{digest(self.positions)}]"

    def __getstate__(self) -> dict[str, Any]:
        source, rows = self.source, self.source.rows
        if isinstance(rows, Elsewhere) or _is_plain(rows):
            sent: Rows = rows  # not a copy for every unit that it is in
        elif source.path is None:
            sent = ArrayRows(rows.read(0, source.n_rows))
        else:
            sent = Elsewhere(rows.shape, rows.dtype, source.known_fingerprint is not None)
        known = replace(source, rows=sent, known_fingerprint=source.fingerprint)
        return {"source": known, "positions": self.positions}


def _is_plain(rows: Rows) -> bool:
    return isinstance(rows, ArrayRows) and type(rows.values) is np.ndarray


def digest(values: np.ndarray) -> str:
    """Return a short name of the values of an array of whole numbers."""
    plain = np.ascontiguousarray(values, dtype="<i8")
    return hashlib.sha256(plain.tobytes()).hexdigest()[:16]


_CHECKED: set[tuple[Path, str, str]] = set()


@lru_cache(maxsize=32)
def _opened(path: Path, view: str) -> EmbeddingSource:
    # A file of one matrix takes no view, one of several needs it.
    with contextlib.suppress(InputError):
        source = open_embeddings(path)
        if source.view == view:
            return source
    return open_embeddings(path, view=view)


def _open_again(source: EmbeddingSource, was: Elsewhere) -> Rows:
    """Open the file of a source that was sent here."""
    assert source.path is not None
    opened = _opened(source.path, source.view)
    name = (source.path, source.view, source.fingerprint)
    if name not in _CHECKED:
        known = opened.known_fingerprint if was.has_known_fingerprint else None
        found = replace(source, rows=opened.rows, known_fingerprint=known)
        if found.fingerprint != source.fingerprint:
            raise InputError(
                f"{source.name}: is not what it was when the comparison began; leave it alone "
                "while it is compared, and start again"
            )
        _CHECKED.add(name)
    return opened.rows


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
        """Name of the split: equal where the same rows are in the same parts and halves."""
        parts, halves = self.split.part_of_row, self.split.half_of_row
        if self.split.n_parts == 1:
            return "whole"
        return digest(parts if halves is None else 2 * parts + halves)

    def has_halves(self, part: int) -> bool:
        """Whether either half of the rows outside a part has more rows than columns."""
        half = self.split.half_of_row
        if half is None:
            return False
        counts = np.bincount(half[self.split.part_of_row != part], minlength=2)
        return bool(counts.min() > max(self.dims))

    def common_width(self, settings: CompareSettings) -> int | None:
        """Return the width that the wider side is cut to, None where nothing is cut."""
        is_cut = settings.width_policy == "pca" and self.dims[0] != self.dims[1]
        return min(self.dims) if is_cut else None

    def used_dims(self, settings: CompareSettings) -> tuple[int, int]:
        """Widths of source and target as they are compared."""
        width = self.common_width(settings)
        return self.dims if width is None else (width, width)


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
        split = fold_split(groups, settings.n_folds, settings.seed)
    elif settings.held_out:
        split = held_out_split(groups, settings.held_out, settings.seed)
    else:
        return no_split(len(groups))
    return split.with_halves(groups, settings.seed) if settings.has_ica else split


def leading_components(moments: PairMoments, width: int) -> AffineMap:
    """Return the orthogonal projection of the source onto its leading principal directions."""
    whitening = fit_whitening(
        moments.mean_x, moments.sxx / moments.n, epsilon=moments.epsilon_x, max_rank=width
    )
    directions = whitening.matrix.T * np.sqrt(whitening.variances)
    return AffineMap(kind="pca", matrix=directions, shift=-moments.mean_x @ directions)
