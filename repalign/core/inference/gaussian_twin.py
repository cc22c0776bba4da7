"""The Gaussian twin of a pair: same means and covariances, and nothing for ICA to find.

On Gaussian rows no rotation is better than another, so that any efficiency that ICA shows
there comes from fitting both sides on the same rows. It is the null of the ICA efficiency.
"""

import numpy as np
from jaxtyping import Float

from repalign.core.moments import PairMoments


def draw_gaussian_twin(
    moments: PairMoments, n_rows: int, *, seed: int
) -> tuple[Float[np.ndarray, "n p"], Float[np.ndarray, "n q"]]:
    """Draw paired Gaussian rows with the means and joint covariance of the moments."""
    p = moments.source_dim
    covariance = np.block([[moments.sxx, moments.sxy], [moments.sxy.T, moments.syy]]) / moments.n
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0))
    white = np.random.default_rng(seed).standard_normal((n_rows, values.size))
    rows = white @ root.T
    return rows[:, :p] + moments.mean_x, rows[:, p:] + moments.mean_y
