"""Join sets of embeddings on the identity of their rows, without loading them whole."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from repalign.aliases import IntArray, MismatchPolicy, Rows
from repalign.arguments import checked, listed
from repalign.exceptions import InputError, RowMismatchError
from repalign.printable import counted
from repalign.store.index import POOLED, RowIndex, decode_ids
from repalign.store.rows import Access, arrange_rows, is_in_place, is_increasing
from repalign.store.source import EmbeddingSource

MatchKey = Literal["ids", "sample numbers", "row order"]
MatchedBy = Literal[
    "ids and hashes", "ids", "sample numbers and hashes", "sample numbers", "row order"
]
SHOWN = 3  # how many rows a message names
INTERSECT_ADVICE = "repair them, or go on with the common rows: --on-mismatch intersect"


@dataclass(frozen=True, eq=False)
class RowMatch:
    """Positions, in several indexes, of the rows that they have in common.

    Args:
        positions: per index the rows in common, all arrays in the order of the first index.
        missing: per index the rows that at least one other index lacks.
        duplicates: per index the rows that repeat an earlier one.
        changed: positions in the first index of rows in common whose input hashes disagree.
    """

    positions: tuple[IntArray, ...]
    missing: tuple[IntArray, ...]
    duplicates: tuple[IntArray, ...]
    changed: IntArray


def match_rows(indexes: Sequence[RowIndex], *, key: MatchKey) -> RowMatch:
    """Match rows on ``(id, token)``, ``(sample, token)`` or their place.

    Rows in common whose hashes disagree are not among ``positions``. Matching by row order
    takes the first rows of each index, as many as the shortest has.
    """
    codes = _row_codes(indexes, key)
    n_keys = max((int(code.max(initial=-1)) + 1 for code in codes), default=0)
    places = []
    shared = np.ones(n_keys, dtype=np.bool_)
    duplicates = []
    for code in codes:
        place = np.full(n_keys, -1, dtype=np.int64)
        # backwards, so that of repeated rows the first one stays
        place[code[::-1]] = np.arange(len(code) - 1, -1, -1, dtype=np.int64)
        places.append(place)
        shared &= place >= 0
        duplicates.append(np.flatnonzero(place[code] != np.arange(len(code))))
    first_rows = codes[0][shared[codes[0]]]
    if len(duplicates[0]):  # distinct codes, by first appearance
        _, first = np.unique(first_rows, return_index=True)
        first_rows = first_rows[np.sort(first)]
    positions = [place[first_rows] for place in places]
    agrees = _hashes_agree(indexes, positions)
    return RowMatch(
        positions=tuple(place[agrees] for place in positions),
        missing=tuple(np.flatnonzero(~shared[code]) for code in codes),
        duplicates=tuple(duplicates),
        changed=positions[0][~agrees],
    )


def number_samples(index: RowIndex) -> NDArray[np.int64]:
    """Number the distinct ids of an index from 0, by first appearance."""
    return _number_distinct(_identifier_words([index]))


def _hashes_agree(indexes: Sequence[RowIndex], positions: Sequence[IntArray]) -> NDArray[np.bool_]:
    """Return for every common row whether all hashes that exist agree."""
    agrees = np.ones(len(positions[0]), dtype=np.bool_)
    first: NDArray[np.uint8] | None = None
    for index, place in zip(indexes, positions, strict=True):
        if index.sample_sha is None:
            continue
        hashes = index.sample_sha[place]
        if first is None:
            first = hashes
        agrees &= (hashes == first).all(axis=1)
    return agrees


def _row_codes(indexes: Sequence[RowIndex], key: MatchKey) -> list[IntArray]:
    """Number the distinct row identities of all indexes together."""
    if key == "row order":
        return [np.arange(len(index), dtype=np.int64) for index in indexes]
    tokens = np.concatenate([index.token for index in indexes]).astype(np.int64)
    if key == "ids":
        columns = [*_identifier_words(indexes), tokens]
    else:
        columns = [np.concatenate([index.sample for index in indexes]), tokens]
    codes = _number_distinct(columns)
    return np.split(codes, np.cumsum([len(index) for index in indexes])[:-1])


def _identifier_words(indexes: Sequence[RowIndex]) -> list[NDArray[np.int64]]:
    """Cut the identifiers into 8-byte words, one column per word."""
    parts = [index.ids for index in indexes if index.ids is not None]
    width = max(part.dtype.itemsize for part in parts)
    n_words = -(-width // 8)
    padded = np.zeros((sum(len(part) for part in parts), n_words * 8), dtype=np.uint8)
    start = 0
    for part in parts:
        if not len(part):
            continue
        size = part.dtype.itemsize
        whole = np.ascontiguousarray(part).view(np.uint8).reshape(len(part), size)
        padded[start : start + len(part), :size] = whole
        start += len(part)
    words = padded.view(np.int64)
    return [words[:, column] for column in range(n_words)]


def _number_distinct(columns: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Number the distinct rows of the columns from 0."""
    import pandas as pd

    codes = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        numbers, distinct = pd.factorize(column)
        # both factors are at most the number of rows, so the product cannot overflow
        codes, _ = pd.factorize(codes * max(len(distinct), 1) + numbers)
    return codes.astype(np.int64, copy=False)


@dataclass(frozen=True)
class JoinReport:
    """How the rows of several sources were matched.

    Args:
        names: the sources, the first one giving the order.
        n_rows: rows of each source.
        n_common: rows that all sources have and that the join goes on with.
        policy: what was asked to happen if the rows differ.
        matched_by: what said which rows are the same.
        is_same_order: whether all sources hold the common rows in one order.
        n_changed: rows of one identity left out because their input hashes disagree.
        access: how the rows of each source are read.
        warnings: sentences that belong to every number computed from the join.
    """

    names: tuple[str, ...]
    n_rows: tuple[int, ...]
    n_common: int
    policy: MismatchPolicy
    matched_by: MatchedBy
    is_same_order: bool
    n_changed: int
    access: tuple[Access, ...]
    warnings: tuple[str, ...]

    @property
    def is_complete(self) -> bool:
        """Whether every row of every source takes part."""
        return all(count == self.n_common for count in self.n_rows)


def unverified_ids(source: EmbeddingSource) -> list[str]:
    """Warn of ids in another file that is not bound to the values."""
    if source.info.get("ids_verified", True):
        return []
    return [
        f"the ids of {source.name} are those of {source.info['ids_from']}, which is not bound "
        "to the values: if these were written again since, rows are confused; import both into a "
        "store to be sure (repalign store import)"
    ]


def _join_warnings(
    sources: Sequence[EmbeddingSource], matched_by: MatchedBy, n_common: int, n_changed: int
) -> tuple[str, ...]:
    """Return the warnings that belong to every result of the join."""
    warnings = []
    if matched_by in ("ids", "ids and hashes"):
        warnings += [text for source in sources for text in unverified_ids(source)]
    if matched_by == "row order":
        warnings.append(
            f"matched by row order: nothing proves that row i of {sources[0].name} and of "
            f"{' and of '.join(source.name for source in sources[1:])} are the same input; give "
            "ids to be sure"
        )
    if any(source.n_rows != n_common for source in sources):
        shares = ", ".join(
            f"{n_common} of {source.n_rows} rows of {source.name}" for source in sources
        )
        warnings.append(f"only the common rows are used: {shares}")
    if n_changed:
        warnings.append(
            f"left out: {counted(n_changed, 'row')} with the same identity and different input "
            "hashes"
        )
    return tuple(warnings)


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


class KnownMatches(dict[tuple[object, ...], tuple[Sequence[RowIndex], RowMatch, RowIndex]]):
    """Earlier matches of row indexes, which the views of one store share.

    Keys hold the identities of the indexes, and values the indexes themselves, so that no other
    index can take their place in memory.
    """


@checked
def join_sources(
    sources: Sequence[EmbeddingSource],
    *,
    policy: MismatchPolicy = "refuse",
    known: KnownMatches | None = None,
) -> Join:
    """Match the rows of two or more sources, in the order of the first.

    Rows are matched on ids and token where all sources have ids, on sample numbers and token
    where all have those, else by their order; input hashes are compared wherever they are known.

    Args:
        sources: at least two sets of embeddings.
        policy: "refuse" rows that differ, or "intersect" and go on with the common rows.
        known: remembers matches, for other sources that share their indexes.

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
    match, common = _match_indexes([source.index for source in sources], key, known)
    check_same_rows(sources, match, policy)
    arranged = [
        arrange_rows(source.rows, positions, chunk_rows=source.chunk_rows, label=source.name)
        for source, positions in zip(sources, match.positions, strict=True)
    ]
    n_rows = tuple(source.n_rows for source in sources)
    n_common = len(match.positions[0])
    matched_by = _matched_by(sources, key)
    report = JoinReport(
        names=tuple(source.name for source in sources),
        n_rows=n_rows,
        n_common=n_common,
        policy=policy,
        matched_by=matched_by,
        is_same_order=all(is_increasing(positions) for positions in match.positions),
        n_changed=len(match.changed),
        access=tuple(access for _, access in arranged),
        warnings=_join_warnings(sources, matched_by, n_common, len(match.changed)),
    )
    return Join(
        sources=tuple(sources),
        rows=tuple(rows for rows, _ in arranged),
        index=common,
        report=report,
        positions=tuple(
            None if is_in_place(positions, source.n_rows) else positions
            for source, positions in zip(sources, match.positions, strict=True)
        ),
    )


def _match_indexes(
    indexes: Sequence[RowIndex], key: MatchKey, known: KnownMatches | None
) -> tuple[RowMatch, RowIndex]:
    """Return the match of indexes, and the index of their common rows."""
    matches = {} if known is None else known
    name = (key, *map(id, indexes))
    if name not in matches:
        match = match_rows(indexes, key=key)
        positions: IntArray = match.positions[0]
        is_whole = is_in_place(positions, len(indexes[0]))
        matches[name] = indexes, match, indexes[0] if is_whole else indexes[0].take(positions)
    return matches[name][1:]


def _match_key(sources: Sequence[EmbeddingSource]) -> MatchKey:
    if all(source.identity == "ids" for source in sources):
        return "ids"
    # a store that has ids has sample numbers too; those of a foreign file with ids are only places,
    # so it cannot be matched with a store that has no ids
    if all(source.has_sample_numbers for source in sources):
        return "sample numbers"
    return "row order"


def _matched_by(sources: Sequence[EmbeddingSource], key: MatchKey) -> MatchedBy:
    if key == "row order" or any(source.index.sample_sha is None for source in sources):
        return key
    return "ids and hashes" if key == "ids" else "sample numbers and hashes"


def check_pairing(sources: Sequence[EmbeddingSource], key: MatchKey) -> None:
    """Check that rows matched by order can be the same inputs.

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
    """Check that the sources hold the same rows, as the policy requires.

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
    if policy == "refuse" and any(len(missing) for missing in match.missing):
        parts = [
            f"{source.name} has {len(missing)} of its {source.n_rows} rows alone "
            f"({describe_rows(source.index, missing)})"
            if len(missing)
            else f"{source.name} has none alone"
            for source, missing in zip(sources, match.missing, strict=True)
        ]
        raise RowMismatchError(f"rows differ: {'; '.join(parts)}; {INTERSECT_ADVICE}")
    if len(match.changed) and (policy == "refuse" or not len(match.positions[0])):
        raise RowMismatchError(
            f"input hashes disagree in {counted(len(match.changed), 'row')} of "
            f"{' and '.join(source.name for source in sources)} "
            f"({describe_rows(sources[0].index, match.changed)}): one identity was made from "
            f"different inputs; {INTERSECT_ADVICE}"
        )


def describe_rows(index: RowIndex, rows: IntArray) -> str:
    """Return the names of the first few rows, with their tokens."""
    shown = index.take(rows[:SHOWN])
    if shown.ids is not None:
        names = [f"'{name}'" for name in decode_ids(shown.ids)]
    else:
        names = [f"sample {number}" for number in shown.sample.tolist()]
    tokens = ["" if token == POOLED else f" token {token}" for token in shown.token.tolist()]
    text = ", ".join(name + token for name, token in zip(names, tokens, strict=True))
    return text + (", …" if len(rows) > SHOWN else "")


def _nothing_in_common(sources: Sequence[EmbeddingSource]) -> str:
    by_token = {bool((source.index.token != POOLED).any()): source for source in sources}
    if len(by_token) == 2:
        return (
            f"{by_token[True].name} has one row per token and {by_token[False].name} one per "
            "sample: no row is common; pool both or neither"
        )
    examples = [
        f"{source.name} has {describe_rows(source.index, np.arange(source.n_rows))}"
        for source in sources
    ]
    return f"no row is common: {'; '.join(examples)}; compare embeddings of the same inputs"


def _nameless(sources: Sequence[EmbeddingSource]) -> str:
    return next(source.name for source in sources if source.identity != "ids")
