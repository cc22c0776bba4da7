"""Linear map: least squares with intercept, of minimum norm."""

from typing import Unpack

import numpy as np
from jaxtyping import Float

from repalign.aliases import Rows
from repalign.core.eigen import eigh, eigvalsh
from repalign.core.maps.affine import AffineMap, MappedRows, centred_map
from repalign.core.moments import PairMoments, pair_moments
from repalign.core.rows import Limits
from repalign.core.whitening import (
    PrincipalDirections,
    arithmetic_cut,
    principal_directions,
    storage_cut,
)

# Beyond this ratio of eigenvalues (condition number 1e5) the moments have lost more than six
# of the sixteen digits.
_RESOLVED = 1e-10


def fit_linear(moments: PairMoments) -> AffineMap:
    """Fit least squares with intercept from the moments alone.

    Of all minimisers the one of least norm: M = Σ_i v_i v_iᵀ S_xy / λ_i over the eigenvectors
    of S_xx whose λ_i is above rounding noise (``core/whitening.py``), so that columns of
    rounding noise are not fitted. The relative error of the predictions is about cond²·2⁻⁵²;
    for data in double precision beyond condition 1e5 see ``fit_linear_from_rows``.
    """
    return centred_map("linear", _solve(moments), moments.mean_x, moments.mean_y)


def is_ill_conditioned(moments: PairMoments) -> bool:
    """Return whether the rows hold directions that the moments cannot resolve.

    Only rows in double precision do: what single precision stores is resolved by moments in
    double precision.
    """
    values = eigvalsh(moments.sxx)
    largest = float(values[-1])
    finest = storage_cut(moments.sxx, moments.mean_x, float(moments.n), moments.epsilon_x)
    resolution = arithmetic_cut(len(values), largest)
    return bool(100 * finest < resolution and values[0] < _RESOLVED * largest)


def fit_linear_from_rows(
    x: Rows,
    y: Rows,
    moments: PairMoments,
    **limits: Unpack[Limits],
) -> AffineMap:
    """Fit least squares as accurately as an orthogonal decomposition of the rows would.

    Where ``is_ill_conditioned`` the rows are read once more, whitened by the first moments: in
    these coordinates the resolved directions have condition one, and those that were lost are
    magnified until they are resolved. Good to condition numbers of about 1e12. Elsewhere it is
    ``fit_linear`` and no row is read.

    Raises:
        InputError: The rows do not pair or a value is not finite.
    """
    if not is_ill_conditioned(moments):
        return fit_linear(moments)
    values, vectors = eigh(moments.sxx)
    floor = arithmetic_cut(len(values), float(values[-1]))
    spread = np.sqrt(np.maximum(values, floor))
    basis = vectors / spread
    whiten = centred_map("whitening", basis, moments.mean_x, np.zeros(len(values)))
    (again,) = pair_moments(
        MappedRows(x, whiten),
        y,
        **limits,
    )
    matrix = basis @ _solve(again)
    kept = _resolved(again).vectors
    if kept.shape[1] < len(values):
        # Rounding along the lost directions was magnified too. The solution of least norm lies
        # in the row space, which the inverse of the basis brings back from the kept directions.
        row_space = np.linalg.qr((vectors * spread) @ kept)[0]
        matrix = row_space @ (row_space.T @ matrix)
    return centred_map("linear", matrix, moments.mean_x, moments.mean_y)


def _solve(moments: PairMoments) -> Float[np.ndarray, "p q"]:
    found = _resolved(moments)
    return found.vectors @ ((found.vectors.T @ moments.sxy) / found.values[:, None])


def _resolved(moments: PairMoments) -> PrincipalDirections:
    return principal_directions(
        moments.sxx, mean=moments.mean_x, weight=float(moments.n), epsilon=moments.epsilon_x
    )
