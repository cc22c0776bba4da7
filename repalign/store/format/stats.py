"""Mean, spread and largest norm of a view, gathered in one pass and mergeable."""

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from repalign.aliases import FloatArray

_BLOCK_ROWS = 256  # small enough for a block and its centred copy to stay in the cache


@dataclass(frozen=True, eq=False)
class ViewStats:
    """Statistics of the rows of one view.

    Args:
        count: number of rows.
        mean: ``(dim,)`` float64.
        m2: ``(dim,)`` float64, sum of squared deviations from the mean.
        max_norm: largest Euclidean norm of a row.
    """

    count: int
    mean: NDArray[np.float64]
    m2: NDArray[np.float64]
    max_norm: float

    def merge(self, other: "ViewStats") -> "ViewStats":
        """Return the statistics of both sets of rows (Chan et al.)."""
        count = self.count + other.count
        with np.errstate(over="ignore"):  # squares of huge values are then infinite
            gap = other.mean - self.mean
            m2 = self.m2 + other.m2 + gap**2 * (self.count * other.count / count)
        return ViewStats(
            count=count,
            mean=self.mean + gap * (other.count / count),
            m2=m2,
            max_norm=max(self.max_norm, other.max_norm),
        )


def stats_of(rows: FloatArray) -> ViewStats:
    """Return the statistics of at least one finite row, ``(rows, dim)``.

    Sums run in the type of the rows (float32 for float16) within blocks of 256 centred rows and
    in float64 across blocks: they describe, they are not meant for further computation.
    """
    total: ViewStats | None = None
    for at in range(0, len(rows), _BLOCK_ROWS):
        block = _block_stats(rows[at : at + _BLOCK_ROWS])
        total = block if total is None else total.merge(block)
    assert total is not None, "statistics of no rows"
    return total


def _block_stats(block: FloatArray) -> ViewStats:
    """Return the statistics of a few rows."""
    work = block.astype(np.float32) if block.dtype == np.float16 else block
    with np.errstate(over="ignore"):
        mean = work.sum(axis=0) / work.dtype.type(len(work))
        centred = work - mean
        m2 = np.einsum("ij,ij->j", centred, centred).astype(np.float64)
        largest = float(np.sqrt(np.einsum("ij,ij->i", work, work).max()))
    vanishes = largest < np.sqrt(np.finfo(work.dtype).tiny) / np.finfo(work.dtype).eps
    if not (np.isfinite(largest) and np.isfinite(m2).all()) or (vanishes and work.any()):
        return _wide_stats(work)
    return ViewStats(len(work), mean.astype(np.float64), m2, largest)


def _wide_stats(work: FloatArray) -> ViewStats:
    """Return the statistics of values whose squares overflow or vanish.

    What does not fit a float64 is clipped to the largest.
    """
    wide = work.astype(np.float64)
    top = np.finfo(np.float64).max
    with np.errstate(over="ignore", invalid="ignore"):
        mean = (wide / len(wide)).sum(axis=0)
        m2 = np.minimum(((wide - mean) ** 2).sum(axis=0), top)
        unit = np.abs(wide).max() or 1.0
        largest = np.minimum(unit * np.sqrt(((wide / unit) ** 2).sum(axis=1)), top).max()
    return ViewStats(len(wide), mean, m2, float(largest))


def stats_table(stats: ViewStats) -> NDArray[np.float64]:
    """Return the stored form of statistics: ``(2, dim)``, mean above m2."""
    return np.stack([stats.mean, stats.m2]).astype("<f8")


def stats_sha256(table: NDArray[np.float64]) -> str:
    """Return the checksum of stored statistics."""
    return hashlib.sha256(np.ascontiguousarray(table).data.cast("B")).hexdigest()
