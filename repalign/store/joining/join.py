"""Join sets of embeddings on the identity of their rows, without loading any of them whole."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from repalign.aliases import IntArray, MismatchPolicy, Rows
from repalign.arguments import checked, listed
from repalign.exceptions import InputError, RowMismatchError
from repalign.printable import counted
from repalign.store.joining.index import POOLED, RowIndex, decode_ids
from repalign.store.joining.matching import MatchKey, RowMatch, match_rows
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
            row_match = match_rows(indexes, key=key)
            self._known[name] = indexes, row_match, _common_index(sources[0], row_match)
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


SHOWN = 3  # how many rows a message names
INTERSECT_ADVICE = "repair them, or go on with the common rows: --on-mismatch intersect"


def check_pairing(sources: Sequence[EmbeddingSource], key: MatchKey) -> None:
    """Check what must hold before rows can be matched at all.

    Raises:
        RowMismatchError: rows can only be matched by order and the numbers of rows differ, or
            the ids that some sources have stand in different orders.
    """
    if key != "row order":
        return
    first = sources[0]
    for other in sources[1:]:
        if other.n_rows != first.n_rows:
            raise RowMismatchError(
                f"{first.name} has {first.n_rows} rows and {other.name} has {other.n_rows}, and "
                f"{_nameless(sources)} has no ids: rows can only be matched by their order, which "
                "needs equal numbers; give ids (--ids)"
            )
    named = [source for source in sources if source.identity == "ids"]
    for other in named[1:]:
        if not named[0].index.is_same_rows(other.index):
            raise RowMismatchError(
                f"{named[0].name} and {other.name} have ids in different orders and "
                f"{_nameless(sources)} has none: its rows cannot be matched by order; give it ids "
                "(--ids)"
            )


def check_same_rows(
    sources: Sequence[EmbeddingSource], match: RowMatch, policy: MismatchPolicy
) -> None:
    """Check that the sources hold the same rows, as far as the policy demands.

    Raises:
        RowMismatchError: a row occurs twice or none is common, whatever the policy; rows are
            missing or hashes disagree, and the policy is "refuse".
    """
    for source, repeated in zip(sources, match.duplicates, strict=True):
        if len(repeated):
            raise RowMismatchError(
                f"{source.name}: an earlier identity is repeated by "
                f"{counted(len(repeated), 'row')} ({describe_rows(source.index, repeated)}); "
                "a row must occur once, remove the copies"
            )
    if not len(match.positions[0]) and not len(match.changed):
        raise RowMismatchError(_nothing_in_common(sources))
    if policy == "refuse":
        _refuse_missing(sources, match)
        _refuse_changed(sources, match)
    if not len(match.positions[0]):
        _refuse_changed(sources, match)


def describe_rows(index: RowIndex, rows: IntArray) -> str:
    """Name the first few rows: id or sample number, with the token where there is one."""
    shown = index.take(rows[:SHOWN])
    if shown.ids is not None:
        names = [f"'{name}'" for name in decode_ids(shown.ids)]
    else:
        names = [f"sample {number}" for number in shown.sample.tolist()]
    tokens = ["" if token == POOLED else f" token {token}" for token in shown.token.tolist()]
    text = ", ".join(name + token for name, token in zip(names, tokens, strict=True))
    return text + (", …" if len(rows) > SHOWN else "")


def _refuse_missing(sources: Sequence[EmbeddingSource], match: RowMatch) -> None:
    if not any(len(missing) for missing in match.missing):
        return
    parts = [
        f"{source.name} has {len(missing)} of its {source.n_rows} rows alone "
        f"({describe_rows(source.index, missing)})"
        if len(missing)
        else f"{source.name} has none alone"
        for source, missing in zip(sources, match.missing, strict=True)
    ]
    raise RowMismatchError(f"rows differ: {'; '.join(parts)}; {INTERSECT_ADVICE}")


def _refuse_changed(sources: Sequence[EmbeddingSource], match: RowMatch) -> None:
    if len(match.changed):
        raise RowMismatchError(
            f"input hashes disagree in {counted(len(match.changed), 'row')} of "
            f"{' and '.join(source.name for source in sources)} "
            f"({describe_rows(sources[0].index, match.changed)}): one identity was made from "
            f"different inputs; {INTERSECT_ADVICE}"
        )


def _nothing_in_common(sources: Sequence[EmbeddingSource]) -> str:
    first, last = sources[0], sources[-1]
    per_token = [bool((source.index.token != POOLED).any()) for source in (first, last)]
    if per_token[0] != per_token[1]:
        tokens, pooled = (first, last) if per_token[0] else (last, first)
        return (
            f"{tokens.name} has one row per token and {pooled.name} one per sample: no row is "
            "common; pool both or neither"
        )
    examples = [
        f"{source.name} has {describe_rows(source.index, _first_rows(source))}"
        for source in sources
    ]
    return f"no row is common: {'; '.join(examples)}; compare embeddings of the same inputs"


def _first_rows(source: EmbeddingSource) -> IntArray:
    return np.arange(min(source.n_rows, SHOWN + 1), dtype=np.int64)


def _nameless(sources: Sequence[EmbeddingSource]) -> str:
    return next(source.name for source in sources if source.identity != "ids")
