"""Numerical rank, and whitening on the directions that are more than rounding noise."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from repalign.core.eigen import eigh
from repalign.core.moments import DOUBLE_EPSILON
from repalign.exceptions import InputError


@dataclass(frozen=True, eq=False)
class Whitening:
    """Principal directions of the numerical rank, scaled to unit variance.

    ``(x − mean) @ matrix.T`` has identity covariance on the rows that were fitted, and
    ``z @ inverse.T + mean`` brings it back. It is truncated, never a pseudo-inverse of a
    near-singular matrix: that would lose the data.

    Attributes:
        mean: Length d.
        matrix: k×d, rows sorted by falling variance.
        inverse: d×k.
        variances: The k kept eigenvalues of the covariance, falling.
        n_constant: Columns of zero variance.
        cut: Eigenvalues at most this large were taken for rounding noise.
    """

    mean: Float[np.ndarray, " d"]
    matrix: Float[np.ndarray, "k d"]
    inverse: Float[np.ndarray, "d k"]
    variances: Float[np.ndarray, " k"]
    n_constant: int
    cut: float

    @property
    def rank(self) -> int:
        """Number k of directions kept."""
        return int(self.matrix.shape[0])


def storage_cut(
    matrix: Float[np.ndarray, "d d"],
    mean: Float[np.ndarray, " d"],
    weight: float,
    epsilon: float,
) -> float:
    """Return the eigenvalue below which a direction may be rounding of the stored values.

    Rounding moves a row x by at most ε/2·‖x‖, so that no direction can gain more variance than
    ε²/4 times the mean of ‖x‖². The cut is ε² times the total variance (four times that bound),
    or ε² times the largest squared column mean where an offset dominates. ``matrix`` is a
    covariance (``weight`` 1) or a scatter sum (``weight`` n).
    """
    return epsilon**2 * max(float(np.trace(matrix)), weight * float((mean**2).max(initial=0.0)))


def arithmetic_cut(dim: int, largest: float) -> float:
    """Return the eigenvalue below which double precision resolves nothing.

    The eigenvalues of a d×d matrix are known to about d·2⁻⁵² times the largest; four times that.
    """
    return 4 * dim * DOUBLE_EPSILON * largest


@dataclass(frozen=True, eq=False)
class PrincipalDirections:
    """Eigenvectors of a covariance or scatter sum above rounding noise, by falling eigenvalue.

    Attributes:
        vectors: d×k, orthonormal columns.
        values: The k eigenvalues.
        cut: Eigenvalues at most this large were taken for rounding noise, of storage or of
            arithmetic.
    """

    vectors: Float[np.ndarray, "d k"]
    values: Float[np.ndarray, " k"]
    cut: float


def principal_directions(
    matrix: Float[np.ndarray, "d d"],
    *,
    mean: Float[np.ndarray, " d"],
    weight: float = 1.0,
    epsilon: float = DOUBLE_EPSILON,
    max_rank: int | None = None,
) -> PrincipalDirections:
    """Return the directions of the numerical rank, at most ``max_rank`` of them.

    The arguments are those of ``storage_cut``.
    """
    values, vectors = eigh(matrix)
    stored = storage_cut(matrix, mean, weight, epsilon)
    cut = max(stored, arithmetic_cut(len(matrix), float(values[-1])))
    keep = np.flatnonzero(values > cut)[::-1][:max_rank]
    return PrincipalDirections(vectors[:, keep], values[keep], cut)


def fit_whitening(
    mean: Float[np.ndarray, " d"],
    covariance: Float[np.ndarray, "d d"],
    *,
    epsilon: float = DOUBLE_EPSILON,
    n_rows: int | None = None,
    max_rank: int | None = None,
) -> Whitening:
    """Return the whitening of a covariance, truncated to its numerical rank.

    Dead columns, the hyperplane of a LayerNorm output (rank d − 1) and fewer rows than columns
    (rank at most n − 1, given ``n_rows``) all end as truncated directions. ``epsilon`` is the
    spacing of the type in which the rows are stored. The sign of each direction is fixed: its
    largest entry is positive.

    Raises:
        InputError: Nothing varies, so that there is no direction to keep.
    """
    limits = [limit for limit in (max_rank, None if n_rows is None else n_rows - 1) if limit]
    found = principal_directions(
        covariance, mean=mean, epsilon=epsilon, max_rank=min(limits, default=None)
    )
    vectors, variances, rank = found.vectors, found.values, len(found.values)
    if rank < 1:
        raise InputError("the rows do not vary: there is no direction to whiten; check the input")
    largest = np.abs(vectors).argmax(axis=0)
    vectors = vectors * np.where(vectors[largest, np.arange(rank)] < 0, -1.0, 1.0)
    spread = np.sqrt(variances)
    return Whitening(
        mean=mean,
        matrix=(vectors / spread).T,
        inverse=vectors * spread,
        variances=variances,
        n_constant=int(np.count_nonzero(np.diag(covariance) <= 0)),
        cut=found.cut,
    )
