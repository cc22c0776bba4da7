"""Pairs of views with the same rows in the same order, and their splits; no value is read."""

import base64
import functools
import hashlib
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from repalign.aliases import BoolArray, IntArray
from repalign.arguments import listed
from repalign.comparison.settings import CompareSettings
from repalign.comparison.views import View
from repalign.core.resampling.groups import Split, fold_split, held_out_split, no_split
from repalign.engine.cache import digest
from repalign.exceptions import InputError
from repalign.store.index import POOLED, RowIndex
from repalign.store.matching import Join, JoinReport, KnownMatches, join_sources
from repalign.store.source import EmbeddingSource


@dataclass(frozen=True, eq=False)
class Pair:
    """Two views with the same inputs in the same order; it can be sent to another process.

    Attributes:
        views: Source and target.
        groups: Number of the group of every row; rows of one group are split together and
            drawn together.
        split: Which rows fit and which judge.
        index: Identity of the rows.
        report: How the rows were matched.
    """

    views: tuple[View, View]
    groups: IntArray
    split: Split
    index: RowIndex
    report: JoinReport

    @property
    def dims(self) -> tuple[int, int]:
        """Widths of source and target."""
        return self.views[0].dim, self.views[1].dim

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.views[0].n_rows

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

    @property
    def source(self) -> EmbeddingSource:
        """Where the source rows come from."""
        return self.views[0].source

    @property
    def target(self) -> EmbeddingSource:
        """Where the target rows come from."""
        return self.views[1].source

    def reversed(self) -> "Pair":
        """Return the opposite direction."""
        return replace(self, views=self.views[::-1])

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


def align_all(
    pairs: Sequence[tuple[EmbeddingSource, EmbeddingSource]],
    settings: CompareSettings,
    labels: Iterable[Any] | None = None,
) -> list[Pair]:
    """Join and split the rows of every pair; views of the same stores are joined once.

    Raises:
        RowMismatchError: The inputs do not hold the same rows.
        InputError: The groups do not fit, or a pair cannot be split.
    """
    matches = KnownMatches()
    grouped: dict[int, tuple[IntArray, Split]] = {}
    aligned = []
    for pair in pairs:
        join = join_sources(pair, policy=settings.on_mismatch, known=matches)
        # matches keeps the index, so that its identity stays its own
        key = id(join.index)
        if labels is not None or key not in grouped:
            groups = row_groups(join.index) if labels is None else _groups(labels, pair[0], join)
            grouped[key] = groups, make_split(groups, settings)
        aligned.append(judge_unseen(align(join, settings, *grouped[key])))
    return aligned


def _groups(labels: Iterable[Any], source: EmbeddingSource, join: Join) -> IntArray:
    """Number the groups of the rows of the first source."""
    numbers = group_numbers(labels, source)
    if not join.report.is_complete:
        raise InputError(
            "groups by row need sources with the same rows; the rows differ: leave groups out"
        )
    return numbers


def group_numbers(groups: Any, source: EmbeddingSource) -> IntArray:
    """Return the number of the group of every row of a source.

    Raises:
        InputError: Not one group a row, or values of which none is equal to another.
    """
    labels = listed("groups", groups, "groups, one a row")
    if len(labels) != source.n_rows:
        raise InputError(
            f"groups: got {len(labels)} for the {source.n_rows} rows of {source.name}; expected "
            "one a row"
        )
    try:
        values = np.asarray(labels)
        numbers: IntArray = np.unique(values, return_inverse=True)[1].astype(np.int64)
    except (TypeError, ValueError):  # values of several kinds, or of several lengths
        values = np.empty(0)
    if values.shape != (source.n_rows,):
        raise InputError("groups: got values of several kinds, expected a text or number a row")
    return numbers


def align(join: Join, settings: CompareSettings, groups: IntArray, split: Split) -> Pair:
    """Return the first and the last source of a join as a pair, with its groups and its split.

    Raises:
        InputError: The widths differ and the policy refuses that.
    """
    widths = (join.source.shape[1], join.target.shape[1])
    if widths[0] != widths[1] and settings.width_policy == "refuse":
        raise InputError(
            f"the source has {widths[0]} columns and the target {widths[1]}; expected equal "
            "widths (--widths refuse): use --widths zero-pad or pca"
        )
    views = tuple(View(join.sources[end], join.positions[end], join.rows[end]) for end in (0, -1))
    return Pair(
        views=(views[0], views[1]),
        groups=groups,
        split=split,
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


def judge_unseen(pair: Pair) -> Pair:
    """Return a pair whose held-out rows did not fit a map that made one of its sides."""
    seen = np.zeros(pair.n_rows, dtype=bool)
    mapped = []
    for view, partner in zip(pair.views, pair.views[::-1], strict=True):
        mask = fitted_mask(view.source, partner.source)
        if mask is not None:
            seen |= mask if view.positions is None else mask[view.positions]
            mapped.append(view.source.name)
    if not seen.any():
        return pair
    groups = np.unique(pair.groups, return_inverse=True)[1]
    is_seen = np.bincount(groups, weights=seen)[groups] > 0
    names = " and ".join(mapped)
    made = f"{names}: made by a map fitted on {seen.sum()} of these {len(seen)} rows"
    if is_seen.all():
        split = no_split(pair.n_rows)
        advice = "no row is held out; fit the map on a part of the rows (--map-rows training)"
    else:
        split = Split((~is_seen).astype(np.int64), n_parts=2, judged=(1,))
        advice = f"held-out errors are those of the other {np.count_nonzero(~is_seen)}"
    warnings = (*pair.report.warnings, f"{made}; {advice}")
    return replace(pair, split=split, report=replace(pair.report, warnings=warnings))


def encode_rows(chosen: BoolArray) -> dict[str, Any]:
    """Return a choice of rows as JSON holds it."""
    packed = zlib.compress(np.packbits(chosen).tobytes(), 9)
    return {"n_rows": len(chosen), "rows": base64.b64encode(packed).decode()}


def decode_rows(text: Mapping[str, Any], n_rows: int, name: str) -> BoolArray:
    """Return a choice of ``n_rows`` rows that ``encode_rows`` wrote.

    Raises:
        InputError: It is not one.
    """
    n_bytes = -(-n_rows // 8)
    rows = text.get("rows")
    try:
        stored = base64.b64decode(rows if isinstance(rows, str) else "")
        packed = zlib.decompressobj().decompress(stored, n_bytes + 1)
    except (ValueError, zlib.error) as error:  # ValueError: no base64
        raise InputError(f"{name}: its fitted rows cannot be read; apply the map again") from error
    if len(packed) != n_bytes:
        raise InputError(f"{name}: has fitted rows of another store; apply the map again")
    return np.unpackbits(np.frombuffer(packed, np.uint8), count=n_rows).astype(bool)


def fitted_mask(source: EmbeddingSource, partner: EmbeddingSource) -> BoolArray | None:
    """Return which rows of a store fitted the map to its partner that made it; None if no map."""
    spec = source.info.get("spec")
    made = spec.get("map") if isinstance(spec, Mapping) else None
    if not isinstance(made, Mapping) or not isinstance(made.get("fitted"), Mapping):
        return None
    target = made.get("to")
    names = (partner.fingerprint, partner.name)
    known = (target.get("fingerprint"), target.get("name")) if isinstance(target, Mapping) else ()
    if not set(known) & set(names):
        return None
    return decode_rows(made["fitted"], source.n_rows, source.name)


@functools.lru_cache(maxsize=1)
def input_places(index: RowIndex) -> tuple[IntArray, str]:
    """Return the place of every row among the inputs in their own order, and a name of these.

    Both are the same wherever the rows stand.
    """
    first = index.sample if index.ids is None else index.ids
    values, place = np.unique(first, return_inverse=True)
    content = hashlib.sha256(repr(values.tolist()).encode())
    if np.any(index.token != POOLED):
        tokens = index.token.astype(np.int64) - POOLED
        keys, place = np.unique(place * (tokens.max() + 1) + tokens, return_inverse=True)
        content.update(keys.tobytes())
    return place.astype(np.int64), content.hexdigest()[:16]
