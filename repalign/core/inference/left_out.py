"""Intervals by leaving out one group at a time: what each claims, and how it is computed.

Rows of one group are alike, so that what could have come out otherwise is seen by leaving whole
groups out. Two things can be asked. Of errors on rows that fitted nothing: what these very maps
err on average over groups of the same kind; the maps stay. Of errors on the rows that fitted the
maps: what this procedure, fitted and judged on as many rows of the same kind, errs on average;
the maps are fitted again without each group. The denominator stays in both, since a maximum such
as the diameter has no consistent resampling law.

Leaving a group out changes little, and what jumps from one answer to another is not seen to. Such a
procedure is repeated on halves of the groups: two halves have no row in common.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from jaxtyping import Float, Int

from repalign.core.inference.ranges import Range

FEWEST_GROUPS = 3
# Groups that are worth fewer are one large group and some rows: there is no spread over groups.
FEWEST_WORTH = 2
# Fewer than this many judged groups give an interval that hangs on the law of few values.
FLAGGED_GROUPS = 10
# Of the variance, from half of the rows to all: where it falls with the rows, and at most.
BY_ROWS, MOST_FALL = 2.0, 6.0
# The mean over many groups varies as much by this many random bundles of them.
MAX_LEFT_OUT = 4000


class Claim(StrEnum):
    """What an interval holds in 95 % of samples.

    ``FITTED_MAP``: the mean error of these maps over new groups of the same kind.
    ``PROCEDURE``: the in-sample error of this procedure, averaged over samples of this size.
    """

    FITTED_MAP = "fitted map"
    PROCEDURE = "procedure"


@dataclass(frozen=True)
class Interval:
    """An interval with its claim; both ends NaN where there is none.

    Attributes:
        low: Lower end.
        high: Upper end.
        claim: What it holds.
        n_groups: Groups that were judged.
        refusal: Why there is none.
    """

    low: float
    high: float
    claim: Claim
    n_groups: int
    refusal: str | None = None

    def widened(self, middle: float, half_width: float) -> "Interval":
        """Return the interval with one more independent source of chance around its middle."""
        low = middle - np.hypot(middle - self.low, half_width)
        high = middle + np.hypot(self.high - middle, half_width)
        return replace(self, low=float(low), high=float(high))

    def reaching(self, middle: float, half_width: float) -> "Interval":
        """Return the interval, made as wide as this where it is not."""
        low, high = (
            np.minimum(self.low, middle - half_width),
            np.maximum(self.high, middle + half_width),
        )
        return replace(self, low=float(low), high=float(high))


Statistic = Callable[[Float[np.ndarray, "*shape maps"]], Float[np.ndarray, " *shape"]]
"""A number made of the mean errors of all maps, such as a ratio of two."""


@dataclass(frozen=True)
class GroupCount:
    """Groups that judge, before any are bundled.

    Attributes:
        number: How many there are.
        worth: As many of one size as they are worth.
    """

    number: int
    worth: float


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Mean errors of every map with all groups, and without each of them.

    Attributes:
        full: With all groups.
        without: By group (or bundle of groups) that is left out.
        sizes: Rows of each.
        groups: Those there were before they were bundled.
        claim: What intervals of these errors claim.
        halves: Of the procedure on either half of the groups, halved again and again; NaN for maps
            that need none.
        quarters: Of the procedure on either half of these halves; None where they are too small.
    """

    full: Float[np.ndarray, " maps"]
    without: Float[np.ndarray, "left_out maps"]
    sizes: Float[np.ndarray, " left_out"]
    groups: GroupCount
    claim: Claim
    halves: Float[np.ndarray, "halvings 2 maps"] | None = None
    quarters: Float[np.ndarray, "halvings 2 2 maps"] | None = None

    @property
    def effective_groups(self) -> float:
        """As many of one size as what is left out, groups or bundles of them, is worth."""
        return worth_of(self.sizes)

    @property
    def n_groups(self) -> int:
        """Groups there were before they were bundled."""
        return self.groups.number

    def interval(self, of: Statistic, *, within: Range, level: float = 0.95) -> Interval:
        """Return the jackknife interval of a statistic, by Student's t over effective groups.

        ``within`` says what the statistic can be. Errors are positive: they are compared as
        logarithms, so that no end is negative and few groups of skewed errors are covered.
        """
        from scipy.special import stdtrit  # the quantile of Student, without all of scipy.stats

        refusal = self.refusal
        value, values = of(self.full[None])[0], of(self.without)
        if refusal is None and not (np.isfinite(value) and np.isfinite(values).all()):
            refusal = "the number is not defined without some of the groups"
        if refusal is not None:
            return Interval(np.nan, np.nan, self.claim, self.n_groups, refusal)
        n = len(values)
        middle = value if self.claim is Claim.FITTED_MAP else values.mean()
        error = np.sqrt((n - 1) / n * np.sum((values - middle) ** 2))
        half = float(stdtrit(self.effective_groups - 1, (1 + level) / 2) * error)
        low, high = within.around(float(value), half)
        return Interval(low, high, self.claim, self.n_groups)

    def reach(self, of: Statistic, *, level: float = 0.95) -> float:
        """Return how far from a statistic its interval reaches by halves; 0 without any.

        Half the squared difference of two independent samples is the variance of one. From halves
        to the whole it is taken to fall as it fell from quarters to halves: by half, where it
        falls with the rows; not at all, where samples of either size end at any of several
        optima; by more, where they no longer do, which quarters of fewer than ten groups are not
        believed. Without quarters it is taken to fall by half.
        Student's t has as many degrees of freedom as there are differences.
        """
        from scipy.special import stdtrit  # the quantile of Student, without all of scipy.stats

        if self.halves is None:
            return 0.0
        halves, fall = _variances(of(self.halves)), BY_ROWS
        if halves.size == 0 or not halves.any():
            return 0.0
        n_differences = halves.size
        if self.quarters is not None:
            quarters = _variances(of(self.quarters))
            n_differences += quarters.size
            if quarters.size:
                most = MOST_FALL if self.n_groups >= 4 * FLAGGED_GROUPS else BY_ROWS
                fall = float(np.clip(quarters.mean() / halves.mean(), 1, most))
        error = np.sqrt(halves.mean() / fall)
        return float(stdtrit(n_differences, (1 + level) / 2) * error)

    @property
    def refusal(self) -> str | None:
        """Why there are no intervals; None where there are."""
        if self.n_groups < FEWEST_GROUPS:
            return (
                f"no interval: {self.n_groups} judged groups, and {FEWEST_GROUPS} are needed; "
                "judge more groups, for example in 5 folds"
            )
        if self.effective_groups < FEWEST_WORTH:
            return (
                f"no interval: one group holds most of the judged rows ({self.n_groups} groups "
                f"are worth {self.effective_groups:.1f} of one size); judge more groups"
            )
        return None


def _variances(pairs: Float[np.ndarray, "*shape 2"]) -> Float[np.ndarray, " known"]:
    """Return the variance of one of two, of every pair that is known."""
    found = np.diff(pairs, axis=-1).ravel() ** 2 / 2
    return found[np.isfinite(found)]


def worth_of(sizes: Float[np.ndarray, " groups"] | Int[np.ndarray, " groups"]) -> float:
    """Return (Σ n)² / Σ n²: as many groups of one size as groups of these sizes are worth."""
    return float(np.sum(sizes) ** 2 / np.sum(np.square(sizes)))


def leave_groups_out(
    errors: Float[np.ndarray, "maps n"], groups: Int[np.ndarray, " n"], *, seed: int = 0
) -> LeftOut:
    """Leave out every group of the judged rows in turn; the maps stay as they are fitted."""
    bundle, count = bundle_groups(groups, MAX_LEFT_OUT, seed=seed)
    sizes = np.bincount(bundle).astype(np.float64)
    sums = np.stack([np.bincount(bundle, weights=row) for row in errors], axis=1)
    rest = np.maximum(sizes.sum() - sizes, 1)[:, None]
    without = (sums.sum(axis=0) - sums) / rest
    return LeftOut(errors.mean(axis=1), without, sizes, count, Claim.FITTED_MAP)


def bundle_groups(
    groups: Int[np.ndarray, " n"], most: int, *, seed: int
) -> tuple[Int[np.ndarray, " n"], GroupCount]:
    """Return the bundle of every row, at most so many of equally many groups, and the groups."""
    labels, member, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    count = GroupCount(labels.size, worth_of(sizes))
    if labels.size <= most:
        return member, count
    bundle = np.random.default_rng(seed).permutation(labels.size) % most
    return bundle[member], count
