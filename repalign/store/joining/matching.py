"""Which rows of several indexes are the same inputs: exact, on the identities alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from repalign.aliases import IntArray
from repalign.store.joining.index import RowIndex

MatchKey = Literal["ids", "sample numbers", "row order"]


@dataclass(frozen=True, eq=False)
class RowMatch:
    """Where the rows that several indexes have in common stand in each of them.

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
    if len(duplicates[0]):
        first_rows = _first_of_each(first_rows)
    positions = [place[first_rows] for place in places]
    agrees = _hashes_agree(indexes, positions)
    return RowMatch(
        positions=tuple(place[agrees] for place in positions),
        missing=tuple(np.flatnonzero(~shared[code]) for code in codes),
        duplicates=tuple(duplicates),
        changed=positions[0][~agrees],
    )


def number_samples(index: RowIndex) -> NDArray[np.int64]:
    """Number the distinct ids of an index from 0, in the order in which they first appear."""
    return _number_distinct(_identifier_words([index]))


def _first_of_each(codes: IntArray) -> IntArray:
    """Return the distinct codes in the order in which they first appear."""
    _, first = np.unique(codes, return_index=True)
    return codes[np.sort(first)]


def _hashes_agree(indexes: Sequence[RowIndex], positions: Sequence[IntArray]) -> NDArray[np.bool_]:
    """Return for every row in common whether all hashes that are known agree."""
    agrees = np.ones(len(positions[0]), dtype=np.bool_)
    known: NDArray[np.uint8] | None = None
    for index, place in zip(indexes, positions, strict=True):
        if index.sample_sha is None:
            continue
        hashes = index.sample_sha[place]
        if known is None:
            known = hashes
        agrees &= (hashes == known).all(axis=1)
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
    """Give equal rows of the columns the same number from 0, different rows different ones."""
    import pandas as pd

    codes = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        numbers, distinct = pd.factorize(column)
        # both factors are at most the number of rows, so the product cannot overflow
        codes, _ = pd.factorize(codes * max(len(distinct), 1) + numbers)
    return codes.astype(np.int64, copy=False)
