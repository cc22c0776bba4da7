"""When a join is refused, and the one line that says which rows are to blame."""

from collections.abc import Sequence

import numpy as np

from repalign.aliases import IntArray, MismatchPolicy
from repalign.exceptions import RowMismatchError
from repalign.printable import counted
from repalign.store.joining.index import POOLED, RowIndex, decode_ids
from repalign.store.joining.matching import MatchKey, RowMatch
from repalign.store.sources.source import EmbeddingSource

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
