"""Jackknife intervals: delete-a-group for fixed maps, delete-half for what the same rows fit.

Rows of one group are alike, so whole groups are left out. Held-out errors of maps that stay as
they are: without each group in turn (delete-a-group jackknife). In-sample errors, measures that
are computed on the rows that fit them, and everything with ICA: the whole procedure on random
halves of the groups. The variance over half-samples is that of the value on all groups
(delete-half jackknife, Shao and Wu 1989, Annals of Statistics 17, 1176-1197).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float, Int


@dataclass(frozen=True)
class Range:
    """The values that a number can take: between two ends, either of which may be missing.

    Attributes:
        low: Smallest value.
        high: Largest value.
    """

    low: float = -math.inf
    high: float = math.inf

    def around(self, value: float, half_width: float) -> tuple[float, float]:
        """Return the ends of value ± half width, none of them outside.

        The interval is symmetric on a scale that knows no ends, and as wide there as its half
        width is at the value: the logarithm of the distance from a single end, of the odds of the
        distances from two. On an end, where that scale stops, what lies outside is cut off.
        """
        below, above = value - self.low, self.high - value
        if half_width == 0 or below <= 0 or above <= 0:
            return self._inside(value - half_width), self._inside(value + half_width)
        if math.isinf(below) and math.isinf(above):
            return value - half_width, value + half_width
        if math.isinf(above):
            factor = _exp(half_width / below)
            return self.low + below / factor, self.low + below * factor
        if math.isinf(below):
            factor = _exp(half_width / above)
            return self.high - above * factor, self.high - above / factor
        factor = _exp(half_width * (self.high - self.low) / (below * above))
        length, odds = self.high - self.low, below / above
        return (
            self.low + length * odds / (odds + factor),
            self.high - length / (1 + odds * factor),
        )

    def _inside(self, value: float) -> float:
        return min(max(value, self.low), self.high)


ANYWHERE = Range()
POSITIVE = Range(low=0.0)
UNIT = Range(0.0, 1.0)
SIGNED = Range(-1.0, 1.0)


def _exp(value: float) -> float:
    return float(np.exp(value)) if value < 700 else math.inf


FEWEST_GROUPS = 10
"""Groups of one size that an interval needs: with fewer it depends on a few values."""
MAX_LEFT_OUT = 4000
"""Groups are bundled at random beyond this number: the mean varies as much over bundles."""

Method = Literal["delete-a-group", "delete-half"]
Statistic = Callable[[Float[np.ndarray, "*shape values"]], Float[np.ndarray, " *shape"]]
"""A number made of the values of a replicate, such as a ratio of two."""


@dataclass(frozen=True)
class Interval:
    """A 95 % interval; both ends NaN where there is none, for the reason given."""

    low: float
    high: float
    refusal: str | None = None

    @classmethod
    def refused(cls, reason: str) -> "Interval":
        """Return no interval."""
        return cls(float("nan"), float("nan"), reason)


@dataclass(frozen=True)
class GroupCount:
    """Groups of rows: how many, and how many groups of one size they are worth."""

    number: int
    effective: float

    @property
    def refusal(self) -> str | None:
        """Why these groups give no interval; None where they do."""
        if round(self.effective) >= FEWEST_GROUPS:
            return None
        size = ""
        if round(self.effective) < self.number:
            size = f" (worth {self.effective:.1f} groups of one size)"
        return (
            f"no interval: {self.number} groups{size}, expected at least {FEWEST_GROUPS}; judge "
            "more groups, for example in 5 folds (--folds 5)"
        )


@dataclass(frozen=True, eq=False)
class Replicates:
    """Values of several statistics on all groups, and on choices of the groups.

    Attributes:
        full: On all groups.
        draws: On all groups but one (or a bundle of them), or on half of the groups.
        method: Which of the two.
        groups: The groups that are chosen from.
        effective_draws: Groups of one size that those left out are worth, or half-samples.
    """

    full: Float[np.ndarray, " values"]
    draws: Float[np.ndarray, "draws values"]
    method: Method
    groups: GroupCount
    effective_draws: float

    def standard_error(self, of: Statistic) -> Float[np.ndarray, "*shape"]:
        """Return the standard error of a statistic."""
        values = of(self.draws)
        n = len(values)
        if self.method == "delete-half":
            return np.asarray(np.std(values, axis=0, ddof=1))
        deviation = values - of(self.full[None])[0]
        return np.asarray(np.sqrt((n - 1) / n * np.sum(deviation**2, axis=0)))

    def quantile(self, level: float) -> float:
        """Return the quantile of Student's t at a one-sided level."""
        from scipy.special import stdtrit  # without all of scipy.stats

        return float(stdtrit(self.effective_draws - 1, level))

    def interval(self, of: Statistic, *, within: Range) -> Interval:
        """Return the 95 % interval of a statistic, inside the values that it can have."""
        if self.groups.refusal is not None:
            return Interval.refused(self.groups.refusal)
        value = float(of(self.full[None])[0])
        if not (np.isfinite(value) and np.isfinite(of(self.draws)).all()):
            return Interval.refused("no interval: not defined without some of the groups")
        half_width = self.quantile(0.975) * float(self.standard_error(of))
        return Interval(*within.around(value, half_width))


def effective_groups(sizes: Float[np.ndarray, " groups"] | Int[np.ndarray, " groups"]) -> float:
    """Return (Σ n)² / Σ n²: the groups of one size that groups of these sizes are worth."""
    return float(np.sum(sizes) ** 2 / np.sum(np.square(sizes)))


def count_groups(groups: Int[np.ndarray, " n"]) -> GroupCount:
    """Count the groups of rows."""
    _, sizes = np.unique(groups, return_counts=True)
    return GroupCount(sizes.size, effective_groups(sizes))


def delete_a_group(
    errors: Float[np.ndarray, "values n"], groups: Int[np.ndarray, " n"], *, seed: int = 0
) -> Replicates:
    """Return mean errors without each group in turn; the maps stay as they are."""
    member = bundle_of_rows(groups, MAX_LEFT_OUT, seed=seed)
    sizes = np.bincount(member).astype(np.float64)
    draws = _means_without(errors, member, sizes)
    full = errors.mean(axis=1)
    return Replicates(full, draws, "delete-a-group", count_groups(groups), effective_groups(sizes))


def delete_a_group_with_radius(
    errors: Float[np.ndarray, "values judged"],
    judged: Int[np.ndarray, " judged"],
    squares: Float[np.ndarray, " n"],
    groups: Int[np.ndarray, " n"],
    *,
    seed: int = 0,
) -> Replicates:
    """Return mean errors and, as the last value, the RMS radius without each group in turn.

    Errors are of some rows, the radius is of all: ``squares`` are the squared distances of all
    target rows from their mean, so that groups that do not judge count as well.
    """
    member = bundle_of_rows(groups, MAX_LEFT_OUT, seed=seed)
    sizes = np.bincount(member).astype(np.float64)
    n_judged = np.bincount(member[judged], minlength=sizes.size).astype(np.float64)
    means = _means_without(errors, member[judged], n_judged)
    radii = np.sqrt(_means_without(squares[None], member, sizes))
    full = np.array([*errors.mean(axis=1), np.sqrt(squares.mean())])
    count = count_groups(groups[judged])
    draws = np.concatenate([means, radii], axis=1)
    return Replicates(full, draws, "delete-a-group", count, effective_groups(n_judged))


def _means_without(
    values: Float[np.ndarray, "values n"],
    member: Int[np.ndarray, " n"],
    sizes: Float[np.ndarray, " groups"],
) -> Float[np.ndarray, "groups values"]:
    """Return the means over all rows but those of each group."""
    sums = np.stack(
        [np.bincount(member, weights=row, minlength=sizes.size) for row in values], axis=1
    )
    return (sums.sum(axis=0) - sums) / np.maximum(sizes.sum() - sizes, 1)[:, None]


def bundle_of_rows(groups: Int[np.ndarray, " n"], most: int, *, seed: int) -> Int[np.ndarray, " n"]:
    """Return the group of every row, or the bundle of equally many groups where there are more."""
    labels, member = np.unique(groups, return_inverse=True)
    if labels.size <= most:
        return member
    bundle = np.random.default_rng(seed).permutation(labels.size) % most
    return bundle[member]


def delete_half(
    full: Float[np.ndarray, " values"],
    draws: Float[np.ndarray, "draws values"],
    groups: Int[np.ndarray, " n"],
) -> Replicates:
    """Return values of a procedure with those of the same procedure on half-samples."""
    return Replicates(full, draws, "delete-half", count_groups(groups), float(len(draws)))
