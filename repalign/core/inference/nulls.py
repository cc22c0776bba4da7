"""What the errors would be if the rows were not paired: the shuffled-pairing null.

The target's rows are shuffled, all maps are fitted again and judged again, many times. Shuffled
is only what can change places under the null hypothesis (``arrangements``), and the observed
errors are computed on the very same rows, so that the p-value (b + 1) / (m + 1) of a permutation
test holds exactly, subsample or not.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from repalign.core.inference.arrangements import (
    FEWEST_ARRANGEMENTS,
    Arrangements,
    OrderNames,
    ShufflePlan,
)
from repalign.core.inference.kept_rows import FitAll, JudgeOrder, KeptRows
from repalign.core.inference.splits import no_split


@dataclass(frozen=True, eq=False)
class NullErrors:
    """Mean errors of every map: as observed and with shuffled pairs, on the same rows.

    Attributes:
        observed: With the pairs as they are; the error on all rows differs a little where not
            all of them are kept or judged.
        shuffled: By shuffle; there is none where nothing can change places.
        arrangements: What was shuffled.
        n_judged: Rows on which the errors are means.
        orders: A name for each shuffle, equal where the same inputs are paired.
    """

    observed: Float[np.ndarray, " maps"]
    shuffled: Float[np.ndarray, "shuffles maps"]
    arrangements: Arrangements
    n_judged: int
    orders: tuple[str, ...] = ()

    @property
    def smallest_p(self) -> float:
        """The smallest p-value that could have been found."""
        return 1 / (len(self.shuffled) + 1)

    @property
    def refusal(self) -> str | None:
        """Why there is no p-value; None where there is."""
        found = self.arrangements
        if found.is_sufficient:
            return None
        return (
            f"no p-value: {found.n_moving} of {found.n_units} groups can change places, in "
            f"{found.count} ways in all, and a p-value needs {FEWEST_ARRANGEMENTS}; use more "
            "groups of like sizes, or a split into fewer parts"
        )

    def p_values(self) -> Float[np.ndarray, " maps"]:
        """Return (b + 1) / (m + 1), b the shuffles at least as close as what was observed.

        NaN where there are too few arrangements for that to mean anything.
        """
        if self.refusal is not None:
            return np.full(self.observed.shape, np.nan)
        # Equal up to rounding is "as close": the mean-only map never changes.
        tolerance = 1e-9 * np.abs(self.observed)
        as_close = (self.shuffled <= self.observed + tolerance).sum(axis=0)
        return (as_close + 1) / (len(self.shuffled) + 1)

    def means(self) -> Float[np.ndarray, " maps"]:
        """Return the mean shuffled error of every map, NaN where there was no shuffle."""
        if len(self.shuffled) == 0:
            return np.full(self.observed.shape, np.nan)
        return self.shuffled.mean(axis=0)


def shuffled_pairing_null(
    source: Float[np.ndarray, "n p"],
    target: Float[np.ndarray, "n q"],
    plan: ShufflePlan,
    *,
    fit_all: FitAll,
    n_shuffles: int,
    seed: int,
    identity: Int[np.ndarray, " n"] | None = None,
) -> tuple[NullErrors, NullErrors | None]:
    """Return the null of maps in-sample and, where the split judges rows, held-out."""

    def judging(rows: "KeptRows") -> JudgeOrder:
        return lambda order: rows.judge(order, fit_all)

    return shuffled_null(
        source,
        target,
        plan,
        judging=judging,
        n_shuffles=n_shuffles,
        seed=seed,
        identity=identity,
    )


def shuffled_null(
    source: Float[np.ndarray, "n p"],
    target: Float[np.ndarray, "n q"],
    plan: ShufflePlan,
    *,
    judging: "Callable[[KeptRows], JudgeOrder]",
    n_shuffles: int,
    seed: int,
    identity: Int[np.ndarray, " n"] | None = None,
) -> tuple[NullErrors, NullErrors | None]:
    """Return the null of whatever is judged in an order of the target's rows.

    The orders follow from the plan and the seed alone, so that they are the same whatever is
    judged and whatever the rows hold. ``identity`` is the place of every row among the inputs;
    by it orders have a name.
    """
    rng = np.random.default_rng(seed)
    split, within = plan.split, plan.within
    places = np.arange(len(source)) if identity is None else identity
    shuffled = KeptRows.of(source, target, within, split, rng)
    judge, namer = judging(shuffled), OrderNames.of(within, places)
    draws = [judge(namer.told(order)) for order in given_and_shuffled(within, n_shuffles, rng)]
    orders = tuple(namer.names[1:])
    in_sample = null_errors([draw[0] for draw in draws], within, shuffled.n_judged(), orders)
    held_out = None
    if split.judged:
        n_judged = shuffled.n_judged(split.judged)
        held_out = null_errors([draw[1] for draw in draws], within, n_judged, orders)
    if plan.across is not None:
        shuffled = KeptRows.of(source, target, plan.across, no_split(len(source)), rng)
        judge, namer = judging(shuffled), OrderNames.of(plan.across, places)
        every = given_and_shuffled(plan.across, n_shuffles, rng)
        errors = [judge(namer.told(order))[0] for order in every]
        orders = tuple(namer.names[1:])
        in_sample = null_errors(errors, plan.across, shuffled.n_judged(), orders)
    return in_sample, held_out


def given_and_shuffled(
    arrangements: Arrangements, n_shuffles: int, rng: np.random.Generator
) -> Iterator[Int[np.ndarray, " kept"]]:
    """Yield the order as it is, then the shuffled ones."""
    yield np.arange(arrangements.kept.size)
    yield from arrangements.shuffles(n_shuffles, rng)


def null_errors(
    errors: Sequence[Sequence[float]],
    arrangements: Arrangements,
    n_judged: int,
    orders: tuple[str, ...],
) -> NullErrors:
    """Return a null from what every order gives, the order as it is first."""
    table = np.array(errors)
    return NullErrors(table[0], table[1:], arrangements, n_judged, orders)
