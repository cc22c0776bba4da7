"""The nearest rows of every row, exact, a block of rows at a time."""

import numpy as np
from jaxtyping import Bool, Float, Int

from repalign.core.memo import ContentMemo
from repalign.core.rows import DEFAULT_MEMORY, FEWER_ROWS, block_rows_for

# What a block holds for each pair of rows: the squared distance, its sorted order, copies.
PAIR_BYTES = 32
MEMO = ContentMemo(2**27)


def centred(rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
    """Return rows in double precision, less their mean."""
    values = rows.astype(np.float64, copy=False)
    return values - values.mean(axis=0)


def nearest_rows(
    rows: Float[np.ndarray, "n d"], count: int, *, memory_bytes: int = DEFAULT_MEMORY
) -> Int[np.ndarray, "n count"]:
    """Return the numbers of the ``count`` rows nearest to every row, nearest first.

    They are remembered for the next partner of these rows and may not be changed. By Euclidean
    distance in double precision; rows as near as each other stand by their number.
    The rows are centred where nothing is remembered: squared distances are ‖x‖² + ‖y‖² − 2⟨x, y⟩.
    """

    def compute() -> tuple[np.ndarray, ...]:
        return (_all_nearest(centred(rows), count, memory_bytes),)

    (found,) = MEMO.of(rows, ("nearest", count, memory_bytes), compute)
    return found


def _all_nearest(
    values: Float[np.ndarray, "n d"], count: int, memory_bytes: int
) -> Int[np.ndarray, "n count"]:
    n = len(values)
    squares = np.einsum("ij,ij->i", values, values)
    found = np.empty((n, count), dtype=np.int64)
    block = block_rows_for(memory_bytes, row_bytes=PAIR_BYTES * n, advice=FEWER_ROWS)
    for start in range(0, n, block):
        stop = min(start + block, n)
        found[start:stop] = _nearest(values, squares, range(start, stop), count)
    return found


def _nearest(
    values: Float[np.ndarray, "n d"],
    squares: Float[np.ndarray, " n"],
    wanted: range,
    count: int,
) -> Int[np.ndarray, "m count"]:
    rows = slice(wanted.start, wanted.stop)
    distances = squares[rows, None] + squares - 2 * (values[rows] @ values.T)
    distances[np.arange(len(wanted)), np.arange(wanted.start, wanted.stop)] = np.inf
    chosen = np.argpartition(distances, count - 1, axis=1)[:, :count]
    chosen.sort(axis=1)
    order = np.argsort(np.take_along_axis(distances, chosen, axis=1), axis=1, kind="stable")
    return np.take_along_axis(chosen, order, axis=1)


def nearest_kept(
    values: Float[np.ndarray, "n d"],
    nearest: Int[np.ndarray, "n longer"],
    keep: Bool[np.ndarray, " n"],
    count: int,
) -> Int[np.ndarray, "m count"]:
    """Return the nearest rows among those kept, by their new numbers.

    ``nearest`` is a longer list of all rows; where it holds too few that are kept, distances to
    the kept rows are computed again.
    """
    rows = np.flatnonzero(keep)
    listed = nearest[rows]
    stays = keep[listed]
    place = np.cumsum(stays, axis=1)
    is_known = place[:, -1] >= count
    found = np.empty((rows.size, count), dtype=np.int64)
    chosen = stays[is_known] & (place[is_known] <= count)
    found[is_known] = listed[is_known][chosen].reshape(-1, count)
    new = np.cumsum(keep) - 1
    found[is_known] = new[found[is_known]]
    if not is_known.all():
        kept = values[rows]
        squares = np.einsum("ij,ij->i", kept, kept)
        for row in np.flatnonzero(~is_known):
            found[row] = _nearest(kept, squares, range(row, row + 1), count)[0]
    return found


def mutual_share(first: Int[np.ndarray, "n k"], second: Int[np.ndarray, "n k"]) -> float:
    """Return the mean share of each row's neighbours that stand in both lists."""
    n, k = first.shape
    both = np.sort(np.concatenate([first, second], axis=1), axis=1)
    return float(np.count_nonzero(both[:, 1:] == both[:, :-1]) / (n * k))
