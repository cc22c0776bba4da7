"""Join sets of embeddings on the identity of their rows, without loading any of them whole."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from repalign.aliases import IntArray, MismatchPolicy, Rows
from repalign.arguments import checked, listed
from repalign.exceptions import InputError
from repalign.store.joining.index import RowIndex
from repalign.store.joining.matching import MatchKey, RowMatch, match_rows
from repalign.store.joining.refusal import check_pairing, check_same_rows
from repalign.store.joining.report import JoinReport, MatchedBy, join_warnings
from repalign.store.rows.gathered import arrange_rows, is_in_place, is_increasing
from repalign.store.sources.source import EmbeddingSource


@dataclass(frozen=True, eq=False)
class Join:
    """Aligned rows of several sources: row i is the same input in all of them.

    Args:
        sources: the sources as given.
        rows: aligned rows of each source, all with ``report.n_common`` rows.
        index: identity of the aligned rows, as the first source tells it.
        report: how the rows were matched.
        positions: where the aligned rows stand in each source; None where they are all its rows
            in their own order.
    """

    sources: tuple[EmbeddingSource, ...]
    rows: tuple[Rows, ...]
    index: RowIndex
    report: JoinReport
    positions: tuple[IntArray | None, ...]

    @property
    def source(self) -> Rows:
        """Aligned rows of the first source."""
        return self.rows[0]

    @property
    def target(self) -> Rows:
        """Aligned rows of the last source."""
        return self.rows[-1]


class KnownMatches:
    """Matches of row indexes that were found before: views of one store share their index."""

    def __init__(self) -> None:
        # by identity of the indexes, which are kept so that no other takes their place in memory
        self._known: dict[tuple[object, ...], tuple[Sequence[RowIndex], RowMatch, RowIndex]] = {}

    def match(self, sources: Sequence[EmbeddingSource], key: MatchKey) -> tuple[RowMatch, RowIndex]:
        """Return the match of the rows of sources, and the index of their rows in common."""
        indexes = [source.index for source in sources]
        name = (key, *map(id, indexes))
        if name not in self._known:
            found = match_rows(indexes, key=key)
            self._known[name] = indexes, found, _common_index(sources[0], found)
        _, match, common = self._known[name]
        return match, common


@checked
def join_sources(
    sources: Sequence[EmbeddingSource],
    *,
    policy: MismatchPolicy = "refuse",
    known: KnownMatches | None = None,
) -> Join:
    """Match the rows of two or more sources; the first one gives the order.

    Rows are matched on ids and token where all sources have ids, on sample numbers and token
    where all have those, else by their order; input hashes are compared wherever they are known.

    Args:
        sources: at least two sets of embeddings.
        policy: "refuse" rows that differ, or "intersect" and go on with the common rows.
        known: keeps what is found of the indexes, for other sources that share them.

    Raises:
        RowMismatchError: rows differ and the policy is "refuse"; a row occurs twice; no row is
            common; or rows can only be matched by order and the numbers of rows differ.

    Example:
        >>> import numpy as np, repalign
        >>> one = repalign.as_source(np.eye(3), ids=["a", "b", "c"])
        >>> other = repalign.as_source(np.eye(3), ids=["c", "b", "d"])
        >>> join_sources([one, other], policy="intersect").index.ids
        array([b'b', b'c'], dtype='|S1')
    """
    sources = listed("sources", sources, "open embeddings", EmbeddingSource)
    if len(sources) < 2:
        raise InputError(f"join: got {len(sources)} set of embeddings; give at least two")
    key = _match_key(sources)
    check_pairing(sources, key)
    match, common = (known or KnownMatches()).match(sources, key)
    check_same_rows(sources, match, policy)
    arranged = [
        arrange_rows(source.rows, positions, chunk_rows=source.chunk_rows, label=source.name)
        for source, positions in zip(sources, match.positions, strict=True)
    ]
    report = JoinReport(
        names=tuple(source.name for source in sources),
        n_rows=tuple(source.n_rows for source in sources),
        n_common=len(match.positions[0]),
        policy=policy,
        matched_by=_matched_by(sources, key),
        is_same_order=all(is_increasing(positions) for positions in match.positions),
        n_changed=len(match.changed),
        access=tuple(access for _, access in arranged),
        warnings=(),
    )
    return Join(
        sources=tuple(sources),
        rows=tuple(rows for rows, _ in arranged),
        index=common,
        report=replace(report, warnings=join_warnings(report, sources)),
        positions=tuple(
            None if is_in_place(positions, source.n_rows) else positions
            for source, positions in zip(sources, match.positions, strict=True)
        ),
    )


def _match_key(sources: Sequence[EmbeddingSource]) -> MatchKey:
    kinds = {source.identity for source in sources}
    if kinds == {"ids"}:
        return "ids"
    # a store that has ids knows its sample numbers too; a foreign file with ids does not, its
    # numbers are only places, so it cannot be matched with a store that has no ids
    if all(source.has_sample_numbers for source in sources):
        return "sample numbers"
    return "row order"


def _matched_by(sources: Sequence[EmbeddingSource], key: MatchKey) -> MatchedBy:
    has_hashes = all(source.index.sample_sha is not None for source in sources)
    if key == "ids":
        return "ids and hashes" if has_hashes else "ids"
    if key == "sample numbers":
        return "sample numbers and hashes" if has_hashes else "sample numbers"
    return "row order"


def _common_index(first: EmbeddingSource, match: RowMatch) -> RowIndex:
    positions: IntArray = match.positions[0]
    if is_in_place(positions, first.n_rows):
        return first.index
    return first.index.take(positions)
