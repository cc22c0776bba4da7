"""Questions about the best of many: is it better than chance, and which others may be the best?

Who looks at all layers of two models and takes the pair that fits best has to ask how well the
best of as many unrelated pairs would fit. Every pair is put into the same orders, so that the best
of each order is known, whatever the pairs have in common. Errors of pairs are of different sizes;
each is standardised by its mean and deviation over all orders with the one that was observed
among them: by those of the shuffled ones alone the observed would be compared with a spread that
has not seen it, and be found too often.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from repalign.core.resampling.intervals import Replicates

# Equal up to rounding is as close.
TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class Draws:
    """What one pair gives in every order.

    Attributes:
        orders: A name for each shuffled order, equal where the same inputs are paired.
        errors: In the order as it is, then in these; lower is closer.
    """

    orders: tuple[str, ...]
    errors: Float[np.ndarray, " orders"]


def common_orders(draws: Sequence[Draws]) -> int:
    """Return how many shuffled orders, from the first on, all pairs were put into."""
    n = min(len(pair.orders) for pair in draws)
    first = draws[0].orders
    for number in range(n):
        if any(pair.orders[number] != first[number] for pair in draws):
            return number
    return n


def best_of_many_p(errors: Float[np.ndarray, "orders pairs"]) -> Float[np.ndarray, " pairs"]:
    """Return for every pair the share of orders whose best pair is at least as close.

    The first line is the order as it is. NaN for pairs of which an order gives no error.
    """
    known = np.isfinite(errors).all(axis=0)
    p_values = np.full(errors.shape[1], np.nan)
    if not known.any():
        return p_values
    values = errors[:, known]
    spread = values.std(axis=0)
    centred = values - values.mean(axis=0)
    # what never changes up to rounding is neither close nor far
    varies = spread > TOLERANCE * np.abs(values).max(axis=0)
    z = np.divide(centred, spread, out=np.zeros_like(centred), where=varies)
    best = z.min(axis=1)
    p_values[known] = (best[:, None] <= z[0] + TOLERANCE).mean(axis=0)
    return p_values


def searched_p(draws: Sequence[Draws]) -> tuple[Float[np.ndarray, " pairs"], int]:
    """Return the p-values corrected for looking at all pairs, and the shuffles they rest on."""
    n = common_orders(draws)
    errors = np.stack([pair.errors[: n + 1] for pair in draws], axis=1)
    return best_of_many_p(errors), n


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
