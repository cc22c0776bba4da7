"""The nearest rows of every row, exact, a block of rows at a time."""

import numpy as np
from jaxtyping import Float, Int
from xxhash import xxh3_64_intdigest

from repalign.core.memo import ContentMemo
from repalign.core.moments import DOUBLE_EPSILON, is_constant
from repalign.core.rows import DEFAULT_MEMORY, FEWER_ROWS, block_rows_for

# What a block holds for each pair of rows: the squared distance, its sorted order, copies.
PAIR_BYTES = 32
# Squared distances are equal where they differ by less than this share of the mean ‖x‖².
TIE = 1e-12
MEMO = ContentMemo(2**27)


def centred(rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
    """Return rows in double precision, less their mean; constant columns become exactly zero."""
    values = rows.astype(np.float64) - rows[0]
    offset = values.mean(axis=0)
    values -= offset
    epsilon = float(np.finfo(rows.dtype).eps) if rows.dtype.kind == "f" else DOUBLE_EPSILON
    scatter = np.einsum("ij,ij->j", values, values)
    values[:, is_constant(scatter, rows[0] + offset, len(rows), epsilon)] = 0.0
    return values


def nearest_rows(
    rows: Float[np.ndarray, "n d"],
    count: int,
    *,
    seed: int = 0,
    memory_bytes: int = DEFAULT_MEMORY,
) -> Int[np.ndarray, "n count"]:
    """Return the numbers of the ``count`` rows nearest to every row, nearest first.

    They are remembered for the next partner of these rows and may not be changed. By Euclidean
    distance in double precision. Rows at equal distances (to rounding) stand in random order, drawn
    anew for every row; the draws follow from ``seed`` and the content of the rows, so that two
    representations break their ties independently of each other.
    The rows are centred where nothing is remembered: squared distances are ‖x‖² + ‖y‖² − 2⟨x, y⟩.
    """

    def compute() -> tuple[np.ndarray, ...]:
        content = xxh3_64_intdigest(np.ascontiguousarray(rows).data)
        neighbours = Neighbours(centred(rows), (seed, content))
        return (neighbours.nearest(count, memory_bytes),)

    (nearest,) = MEMO.of(rows, ("nearest", count, memory_bytes, seed), compute)
    return nearest


class Neighbours:
    """Finds the nearest rows, with ties in random order.

    Args:
        values: Centred rows.
        seed: Of the draws that break ties.
    """

    def __init__(self, values: Float[np.ndarray, "n d"], seed: tuple[int, ...]) -> None:
        self.values = values
        self.seed = seed
        self.squares = np.einsum("ij,ij->i", values, values)
        self.tolerance = TIE * float(self.squares.mean())

    def nearest(self, count: int, memory_bytes: int) -> Int[np.ndarray, "n count"]:
        """Return the nearest rows of all rows."""
        n = len(self.values)
        nearest = np.empty((n, count), dtype=np.int64)
        block = block_rows_for(memory_bytes, row_bytes=PAIR_BYTES * n, advice=FEWER_ROWS)
        for start in range(0, n, block):
            rows = np.arange(start, min(start + block, n))
            nearest[rows] = self.of_rows(rows, count)
        return nearest

    def of_rows(self, rows: Int[np.ndarray, " m"], count: int) -> Int[np.ndarray, "m count"]:
        """Return the nearest rows of some rows."""
        distances = (
            self.squares[rows, None] + self.squares - 2 * (self.values[rows] @ self.values.T)
        )
        distances[np.arange(rows.size), rows] = np.inf
        nearest = np.argpartition(distances, count - 1, axis=1)[:, :count]
        by_place = np.take_along_axis(distances, nearest, axis=1)
        furthest = by_place.max(axis=1)
        n_as_near = np.count_nonzero(distances <= (furthest + self.tolerance)[:, None], axis=1)
        for place in np.flatnonzero(n_as_near > count):
            line, limit = distances[place], furthest[place]
            draws = self._draws(int(rows[place]))
            keys = np.where(line <= limit + self.tolerance, draws, np.inf)
            keys[line < limit - self.tolerance] = -1.0
            nearest[place] = np.argpartition(keys, count - 1)[:count]
        return self._sorted(rows, nearest, np.take_along_axis(distances, nearest, axis=1))

    def _sorted(
        self,
        rows: Int[np.ndarray, " m"],
        nearest: Int[np.ndarray, "m count"],
        distances: Float[np.ndarray, "m count"],
    ) -> Int[np.ndarray, "m count"]:
        """Return the nearest rows by rising distance, equal ones in random order."""
        order = np.lexsort((nearest, distances))
        nearest = np.take_along_axis(nearest, order, axis=1)
        steps = np.diff(np.take_along_axis(distances, order, axis=1), axis=1) > self.tolerance
        for place in np.flatnonzero(~steps.all(axis=1)):
            level = np.concatenate([[0], np.cumsum(steps[place])])
            draws = self._draws(int(rows[place]))[nearest[place]]
            nearest[place] = nearest[place][np.lexsort((draws, level))]
        return nearest

    def _draws(self, row: int) -> Float[np.ndarray, " n"]:
        """Return the random numbers by which one row orders all others at equal distances."""
        return np.random.default_rng((*self.seed, row)).random(len(self.values))


def mutual_share(first: Int[np.ndarray, "n k"], second: Int[np.ndarray, "n k"]) -> float:
    """Return the mean share of each row's neighbours that stand in both lists."""
    n, k = first.shape
    both = np.sort(np.concatenate([first, second], axis=1), axis=1)
    return float(np.count_nonzero(both[:, 1:] == both[:, :-1]) / (n * k))
