"""Which of several candidates may be the best: those that no other beats beyond chance."""

import numpy as np
from jaxtyping import Bool, Float

from repalign.core.inference.jackknife import Replicates


def plausible_best(replicates: Replicates, level: float = 0.95) -> Bool[np.ndarray, " candidates"]:
    """Return which candidates cannot be excluded from being the best; lower is better.

    A candidate is excluded where another is better by more than t standard errors of their
    difference, jackknifed over the same choices of groups for both. With t at the one-sided
    level (1 − level)/(k − 1) of k candidates (Bonferroni) the truly best one is among those that
    are left in at least ``level`` of samples.
    """
    full = replicates.full
    k = full.size
    if k < 2:
        return np.ones(k, dtype=bool)
    quantile = replicates.quantile(1 - (1 - level) / (k - 1))
    error = replicates.standard_error(_differences)
    is_beaten = np.asarray((_differences(full) > quantile * error).any(axis=1))
    return ~is_beaten


def _differences(values: Float[np.ndarray, "*shape k"]) -> Float[np.ndarray, "*shape k k"]:
    return values[..., :, None] - values[..., None, :]
