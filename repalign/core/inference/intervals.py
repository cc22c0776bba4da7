"""Bootstrap intervals of mean errors and of the ICA efficiency, over rows or groups of rows.

The maps stay as they were fitted and the rows are drawn again: the interval speaks of the rows
on which the error was judged. The denominator stays too, since a maximum such as the diameter
has no consistent bootstrap.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

# The mean over many units is as well resampled in this many random bundles of them, at a cost
# that no longer grows with the rows.
MAX_UNITS = 4000
DRAWS_AT_ONCE = 100


@dataclass(frozen=True)
class Interval:
    """Percentile interval; both ends NaN where the statistic is undefined."""

    low: float
    high: float


@dataclass(frozen=True, eq=False)
class ErrorDraws:
    """Mean error of every map in every bootstrap draw, all maps on the same drawn rows."""

    means: Float[np.ndarray, "draws maps"]

    def interval(
        self,
        statistic: Callable[[Float[np.ndarray, "draws maps"]], Float[np.ndarray, " draws"]],
        level: float = 0.95,
    ) -> Interval:
        """Return the percentile interval of a statistic of the means, such as a ratio."""
        values = statistic(self.means)
        values = values[np.isfinite(values)]
        if values.size < 0.5 * len(self.means) or values.size == 0:
            return Interval(float("nan"), float("nan"))
        tail = (1 - level) / 2
        low, high = np.quantile(values, [tail, 1 - tail])
        return Interval(float(low), float(high))


def draw_error_means(
    errors: Float[np.ndarray, "maps n"],
    groups: Int[np.ndarray, " n"],
    *,
    n_draws: int,
    seed: int,
) -> ErrorDraws:
    """Draw groups with replacement and return the mean error of every map in each draw.

    Every row belongs to a group; with one row a group this is the bootstrap over rows.
    """
    rng = np.random.default_rng(seed)
    sums, counts = _sums_of_units(errors, groups, rng)
    n_units = counts.size
    chance = np.full(n_units, 1 / n_units)
    means = np.empty((n_draws, errors.shape[0]))
    for start in range(0, n_draws, DRAWS_AT_ONCE):
        stop = min(start + DRAWS_AT_ONCE, n_draws)
        times = rng.multinomial(n_units, chance, size=stop - start).astype(np.float64)
        means[start:stop] = (times @ sums) / (times @ counts)[:, None]
    return ErrorDraws(means)


def _sums_of_units(
    errors: Float[np.ndarray, "maps n"], groups: Int[np.ndarray, " n"], rng: np.random.Generator
) -> tuple[Float[np.ndarray, "units maps"], Float[np.ndarray, " units"]]:
    """Return the sum of errors and the number of rows of every unit that is drawn."""
    labels, member = np.unique(groups, return_inverse=True)
    n_units = labels.size
    if n_units > MAX_UNITS:
        bundle = rng.permutation(n_units) % MAX_UNITS
        member = bundle[member]
        n_units = MAX_UNITS
    sums = np.stack([np.bincount(member, weights=row, minlength=n_units) for row in errors], axis=1)
    return sums, np.bincount(member, minlength=n_units).astype(np.float64)
