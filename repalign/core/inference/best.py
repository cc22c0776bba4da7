"""Which of several candidates may be the best: those that no other beats beyond chance."""

import numpy as np
from jaxtyping import Bool

from repalign.core.inference.left_out import Claim, LeftOut


def plausible_best(left_out: LeftOut, level: float = 0.95) -> Bool[np.ndarray, " candidates"]:
    """Return which candidates cannot be excluded from being the best; lower is better.

    A candidate is excluded where another is better by more than t standard errors of their
    difference, jackknifed over groups that are left out of both alike. With t at the one-sided
    level (1 − level)/(k − 1) of k candidates (Bonferroni) the truly best one is among those that
    are left in at least ``level`` of samples.
    """
    from scipy.special import stdtrit  # the quantile of Student, without all of scipy.stats

    full, without = left_out.full, left_out.without
    k, n = full.size, len(without)
    if k < 2:
        return np.ones(k, dtype=bool)
    quantile = stdtrit(left_out.effective_groups - 1, 1 - (1 - level) / (k - 1))
    behind = full[:, None] - full
    middle = behind if left_out.claim is Claim.FITTED_MAP else _differences(without.mean(axis=0))
    squares = np.zeros((k, k))
    for values in without:
        squares += (_differences(values) - middle) ** 2
    error = np.sqrt((n - 1) / n * squares)
    return ~(behind > quantile * error).any(axis=1)


def _differences(values: np.ndarray) -> np.ndarray:
    return values[:, None] - values
