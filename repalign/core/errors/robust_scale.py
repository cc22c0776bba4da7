"""Denominators that one outlier row cannot set: RMS radius and a quantile of the distances."""

import numpy as np
from jaxtyping import Float

from repalign.aliases import Rows
from repalign.core.moments import PairMoments
from repalign.exceptions import InputError

# ‖x‖² + ‖y‖² − 2⟨x, y⟩ is known to the rounding of the squares: a distance whose square is this
# share of the largest has lost two digits, and is computed from differences instead.
_FAR = 1e-2


def target_rms_radius(moments: PairMoments) -> float:
    """Return the root mean squared distance of the target rows from their mean."""
    return float(np.sqrt(np.trace(moments.syy) / moments.n)) if moments.n else 0.0


def quantile_diameter(
    rows: Rows, *, quantile: float = 0.99, sample_rows: int = 2000, seed: int = 0
) -> float:
    """Return a quantile of the distances between two different rows.

    The estimator is the empirical quantile over all pairs of ``sample_rows`` rows drawn without
    replacement (all rows where there are no more), so that it is exact for small stores and has
    a relative standard error of well under one percent else. A single row has distance 0.

    Raises:
        InputError: The quantile lies outside (0, 1].
    """
    if not 0 < quantile <= 1:
        raise InputError(f"the quantile is {quantile}; expected a number above 0, at most 1")
    n_rows = rows.shape[0]
    if n_rows < 2:
        return 0.0
    rng = np.random.default_rng(seed)
    chosen = np.sort(rng.choice(n_rows, min(sample_rows, n_rows), replace=False))
    sample = rows.take(chosen).astype(np.float64, copy=False)
    centred = sample - sample.mean(axis=0)
    squares = np.einsum("ij,ij->i", centred, centred)
    found = float(np.quantile(_distances(centred, squares), quantile, overwrite_input=True))
    if found**2 < _FAR * squares.max():
        from scipy.spatial.distance import pdist

        found = float(np.quantile(pdist(sample), quantile, overwrite_input=True))
    return found


def _distances(
    values: Float[np.ndarray, "n d"], squares: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " pairs"]:
    """Return the distances of all pairs from one product, which takes a third of the time."""
    product = values @ values.T
    product *= -2
    product += squares
    product += squares[:, None]
    found = np.concatenate([line[row + 1 :] for row, line in enumerate(product)])
    return np.sqrt(np.maximum(found, 0, out=found), out=found)
