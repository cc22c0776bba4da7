"""Numerical rank, and whitening on the directions that are more than rounding noise."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

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


def noise_cut(
    matrix: Float[np.ndarray, "d d"],
    *,
    largest: float,
    mean: Float[np.ndarray, " d"] | None = None,
    weight: float = 1.0,
    epsilon: float = DOUBLE_EPSILON,
) -> float:
    """Return the eigenvalue below which a direction is rounding noise.

    ``matrix`` is a covariance (``weight`` 1) or scatter sum (``weight`` n) and ``largest`` its
    largest eigenvalue. Two sources of noise bound it from below:

    * storage: rounding moves a row x by at most ε/2·‖x‖, so that no direction can gain more
      variance than ε²/4 times the mean of ‖x‖². The cut is ε² times the total variance (four
      times that bound), or ε² times the largest squared column mean where an offset dominates.
    * arithmetic: the eigenvalues of a d×d matrix of double precision are known to about
      d·2⁻⁵²·largest; the cut is four times that.
    """
    dim = matrix.shape[0]
    energy = float(np.trace(matrix))
    if mean is not None and dim:
        energy = max(energy, weight * float((mean**2).max()))
    return max(epsilon**2 * energy, 4 * dim * DOUBLE_EPSILON * largest)


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
    variances, vectors = np.linalg.eigh(covariance)
    variances, vectors = variances[::-1], vectors[:, ::-1]
    cut = noise_cut(covariance, largest=float(variances[0]), mean=mean, epsilon=epsilon)
    rank = int(np.count_nonzero(variances > cut))
    for limit in (None if n_rows is None else n_rows - 1, max_rank):
        rank = rank if limit is None else min(rank, limit)
    if rank < 1:
        raise InputError("the rows do not vary: there is no direction to whiten; check the input")
    vectors, variances = vectors[:, :rank], variances[:rank]
    largest = np.abs(vectors).argmax(axis=0)
    vectors = vectors * np.where(vectors[largest, np.arange(rank)] < 0, -1.0, 1.0)
    spread = np.sqrt(variances)
    return Whitening(
        mean=mean,
        matrix=(vectors / spread).T,
        inverse=vectors * spread,
        variances=variances.copy(),
        n_constant=int(np.count_nonzero(np.diag(covariance) <= 0)),
        cut=cut,
    )
