"""Denominators that one outlier row cannot set: RMS radius and a quantile of the distances."""

import numpy as np
from scipy.spatial.distance import pdist

from repalign.aliases import Rows
from repalign.core.moments import PairMoments
from repalign.exceptions import InputError


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
    return float(np.quantile(pdist(rows.take(chosen)), quantile))
