"""Linear map: least squares with intercept, of minimum norm."""

import numpy as np

from repalign.core.maps import AffineMap, centred_map
from repalign.core.moments import PairMoments
from repalign.core.whitening import noise_cut


def fit_linear(moments: PairMoments) -> AffineMap:
    """Fit least squares with intercept from the moments alone.

    Of all minimisers the one of least norm: M = Σ_i v_i v_iᵀ S_xy / λ_i over the eigenvectors
    of S_xx whose λ_i is above rounding noise (``noise_cut``), so that columns of rounding noise
    are not fitted. Exact to about cond²·2⁻⁵²; see ``needs_rows`` for data beyond that.
    """
    values, vectors = np.linalg.eigh(moments.sxx)
    keep = values > _cut(moments, float(values[-1]))
    basis = vectors[:, keep]
    matrix = basis @ ((basis.T @ moments.sxy) / values[keep, None])
    return centred_map("linear", matrix, moments.mean_x, moments.mean_y)


def _cut(moments: PairMoments, largest: float) -> float:
    return noise_cut(
        moments.sxx,
        largest=largest,
        mean=moments.mean_x,
        weight=float(moments.n),
        epsilon=moments.epsilon_x,
    )
