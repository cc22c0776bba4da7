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
With groups of one size that is exact again, if groups and rows have Gaussian parts. Where sizes
differ, the mean of a small group varies more than that of a large one by what its own rows add, and
by nothing else: rotated are means in units of how much they vary, direction by direction, which is
estimated from the two scatters.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

# Apart from the streams that anything else draws of the same seed.
_STREAM = 7_041
_SMALLEST_SHARE = 1e-12


@dataclass(frozen=True, eq=False)
class GroupMeans:
    """How the means of groups lie about the mean of all, each times the root of its rows.

    Attributes:
        sizes: Rows of every group.
        directions: In which what groups share and what rows have of their own are uncorrelated.
        shares: Of the variance along each, what groups share.
        root: R with RᵀR the scatter of the means over their spread.
    """

    sizes: Int[np.ndarray, " groups"]
    directions: Float[np.ndarray, "r width"]
    shares: Float[np.ndarray, " r"]
    root: Float[np.ndarray, "b r"]

    @classmethod
    def of(
        cls,
        means: Float[np.ndarray, "groups width"],
        within: Float[np.ndarray, "width width"],
        sizes: Int[np.ndarray, " groups"],
    ) -> "GroupMeans":
        """Return how means about the mean of all lie, beside rows of this scatter within groups."""
        weighted = np.sqrt(sizes)[:, None] * means
        among, n = weighted.T @ weighted, int(sizes.sum())
        own = within / max(n - sizes.size, 1)
        # Rows of their own scatter means too; what remains is what the rows of a group share.
        shared = (among - (sizes.size - 1) * own) / max(n - float(sizes @ sizes) / n, 1.0)
        values, vectors = np.linalg.eigh((among + within) / n)
        kept = values > _SMALLEST_SHARE * values.sum()
        vectors, scale = vectors[:, kept], np.sqrt(values[kept])
        turn = np.linalg.eigh(_in_basis(shared, vectors / scale))[1]
        basis = vectors / scale @ turn
        of_groups = np.maximum(np.diag(_in_basis(shared, basis)), 0.0)
        of_rows = np.diag(_in_basis(own, basis))
        shares = of_groups / np.maximum(of_groups + of_rows, _SMALLEST_SHARE)
        standard = _without(weighted @ basis / _spread(sizes, shares), _level(sizes, shares))
        scatter = standard.T @ standard
        root = _root(scatter, sizes.size - 1, float(np.trace(scatter)))
        return cls(sizes, (vectors * scale @ turn).T, shares, root)

    def draw(self, rng: np.random.Generator) -> Float[np.ndarray, "groups width"]:
        """Return other means with the same scatter."""
        white = rng.standard_normal((self.sizes.size, len(self.root)))
        level = _level(self.sizes, self.shares)
        common = level.mean(axis=1)
        white -= np.outer(common, common @ white) / (common @ common)
        standard = _without(_orthonormal(white) @ self.root, level)
        weighted = (standard * _spread(self.sizes, self.shares)) @ self.directions
        return weighted / np.sqrt(self.sizes)[:, None]


def _spread(
    sizes: Int[np.ndarray, " groups"], shares: Float[np.ndarray, " r"]
) -> Float[np.ndarray, "groups r"]:
    """Return how much means vary, each times the root of its rows: what is shared adds up."""
    return np.sqrt(1.0 - shares + sizes[:, None] * shares)


def _level(
    sizes: Int[np.ndarray, " groups"], shares: Float[np.ndarray, " r"]
) -> Float[np.ndarray, "groups r"]:
    """Return as unit vectors along what a mean of all groups would lie."""
    along = np.sqrt(sizes)[:, None] / _spread(sizes, shares)
    return along / np.linalg.norm(along, axis=0)


@dataclass(frozen=True, eq=False)
class TwinLaw:
    """What twins share with their pair.

    Attributes:
        source_dim: Columns of the source; those of the target stand behind them.
        mean: Of both sides.
        groups: Group of every row, numbered from 0 without gaps.
        among: How the means of groups lie; None where all rows are one group.
        within: W with WᵀW the scatter of rows about the mean of their group.
    """

    source_dim: int
    mean: Float[np.ndarray, " width"]
    groups: Int[np.ndarray, " n"]
    among: GroupMeans | None
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
        total = float(np.einsum("ij,ij->", rows, rows))
        means = _group_means(rows, labels)
        rows -= means[labels]
        sizes = np.bincount(labels)
        within = rows.T @ rows
        among = GroupMeans.of(means, within, sizes) if sizes.size > 1 else None
        return cls(source.shape[1], mean, labels, among, _root(within, n - sizes.size, total))

    def draw(
        self, number: int, *, seed: int
    ) -> tuple[Float[np.ndarray, "n p"], Float[np.ndarray, "n q"]]:
        """Return the two sides of twin ``number``."""
        rng = np.random.default_rng((_STREAM, seed, number))
        white = rng.standard_normal((len(self.groups), len(self.within)))
        white -= _group_means(white, self.groups)[self.groups]
        rows = _orthonormal(white) @ self.within
        if self.among is not None:
            means = self.among.draw(rng)
            rows += (means - self.among.sizes @ means / len(self.groups))[self.groups]
        rows += self.mean
        return rows[:, : self.source_dim], rows[:, self.source_dim :]


def _in_basis(
    scatter: Float[np.ndarray, "width width"], basis: Float[np.ndarray, "width r"]
) -> Float[np.ndarray, "r r"]:
    return basis.T @ scatter @ basis


def _without(
    columns: Float[np.ndarray, "n r"], units: Float[np.ndarray, "n r"]
) -> Float[np.ndarray, "n r"]:
    """Return columns without their parts along unit vectors, one for each."""
    return columns - units * np.einsum("ij,ij->j", units, columns)


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
