"""Gaussian twins of a pair: same means and scatters, and nothing for ICA to find.

On Gaussian rows no rotation is better than another, so that any efficiency that ICA shows there
comes from fitting both sides on the same rows. It is the null of the ICA efficiency, if the twin
goes through all that the pair went through: the same rows for both sides or disjoint ones, the
same splits, the same starts.

Of Gaussian rows, the mean and the scatter say all that can be known; given these, every rotation
of the rows about their mean is as likely as any other. So a twin is drawn with exactly the mean
and the scatter of the pair, by such a rotation, and a Gaussian pair and its twins can change
places: whatever number is computed of them, the pair's is above those of all m twins with
probability 1 / (m + 1). Drawn from the Gaussian of the pair's covariance instead, twins would add
chance correlations of their own to those of the pair, and lie too low where columns are many.

Rows in groups are rotated among groups and within groups, each apart, so that both scatters stay.
With groups of one size that is exact again, if groups and rows have Gaussian parts.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

# Apart from the streams that anything else draws of the same seed.
_STREAM = 7_041
_SMALLEST_SHARE = 1e-12


@dataclass(frozen=True, eq=False)
class TwinLaw:
    """What twins share with their pair.

    Attributes:
        source_dim: Columns of the source; those of the target stand behind them.
        mean: Of both sides.
        groups: Group of every row, numbered from 0 without gaps.
        between: B with BᵀB the scatter of the group means, each counted as often as it has rows.
        within: W with WᵀW the scatter of rows about the mean of their group.
    """

    source_dim: int
    mean: Float[np.ndarray, " width"]
    groups: Int[np.ndarray, " n"]
    between: Float[np.ndarray, "b width"]
    within: Float[np.ndarray, "w width"]

    @classmethod
    def of(
        cls,
        source: Float[np.ndarray, "n p"],
        target: Float[np.ndarray, "n q"],
        groups: Int[np.ndarray, " n"] | None = None,
    ) -> "TwinLaw":
        """Return what the twins of paired rows share with them; without groups all rows are one."""
        n = len(source)
        labels = np.zeros(n, dtype=np.int64)
        if groups is not None:
            labels = np.unique(groups, return_inverse=True)[1]
            if int(labels.max()) + 1 == n:
                labels = np.zeros(n, dtype=np.int64)  # nothing is shared within groups of one row
        rows = np.hstack([source, target]).astype(np.float64)
        mean = rows.mean(axis=0)
        rows -= mean
        means = _group_means(rows, labels)
        sizes = np.bincount(labels)
        spread = np.sqrt(sizes)[:, None] * means
        rows -= means[labels]
        total = float(np.einsum("ij,ij->", rows, rows) + np.einsum("ij,ij->", spread, spread))
        n_means = sizes.size - 1
        between = _root(spread.T @ spread, n_means, total)
        within = _root(rows.T @ rows, n - sizes.size, total)
        return cls(source.shape[1], mean, labels, between, within)

    def draw(
        self, number: int, *, seed: int
    ) -> tuple[Float[np.ndarray, "n p"], Float[np.ndarray, "n q"]]:
        """Return the two sides of twin ``number``."""
        rng = np.random.default_rng((_STREAM, seed, number))
        root_sizes = np.sqrt(np.bincount(self.groups))
        white = rng.standard_normal((len(self.groups), len(self.within)))
        white -= _group_means(white, self.groups)[self.groups]
        rows = _orthonormal(white) @ self.within
        if len(self.between):
            white = rng.standard_normal((root_sizes.size, len(self.between)))
            white -= np.outer(root_sizes, root_sizes @ white) / len(self.groups)
            means = _orthonormal(white) @ self.between / root_sizes[:, None]
            rows += means[self.groups]
        rows += self.mean
        return rows[:, : self.source_dim], rows[:, self.source_dim :]


def _group_means(
    rows: Float[np.ndarray, "n width"], labels: Int[np.ndarray, " n"]
) -> Float[np.ndarray, "groups width"]:
    order = np.argsort(labels, kind="stable")
    sizes = np.bincount(labels)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    return np.add.reduceat(rows[order], starts, axis=0) / sizes[:, None]


def _root(
    scatter: Float[np.ndarray, "width width"], most: int, total: float
) -> Float[np.ndarray, "rank width"]:
    """Return R with RᵀR the scatter, on its directions above rounding, ``most`` at most."""
    values, vectors = np.linalg.eigh(scatter)
    kept = np.flatnonzero(values > _SMALLEST_SHARE * total)[::-1][:most]
    return np.sqrt(values[kept])[:, None] * vectors[:, kept].T


def _orthonormal(white: Float[np.ndarray, "n rank"]) -> Float[np.ndarray, "n rank"]:
    """Return orthonormal columns of the same span, all equally likely for Gaussian entries."""
    q, r = np.linalg.qr(white)
    return q * np.where(np.diag(r) < 0, -1.0, 1.0)


@dataclass(frozen=True)
class TwinNull:
    """What a procedure says of Gaussian twins; values that are not defined are left out."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Mean of the twins, NaN where there are none."""
        return float(np.mean(self.values)) if self.values else float("nan")

    @property
    def spread(self) -> float:
        """Standard deviation over twins, NaN of fewer than two."""
        return float(np.std(self.values, ddof=1)) if len(self.values) > 1 else float("nan")

    def p_value(self, observed: float) -> float:
        """Return (b + 1) / (m + 1), b the twins at least as large; NaN without twins."""
        if not self.values or not np.isfinite(observed):
            return float("nan")
        return (sum(value >= observed for value in self.values) + 1) / (len(self.values) + 1)
