"""What the errors would be if the rows were not paired: the shuffled-pairing null.

The target's rows are shuffled, all maps are fitted again and judged again, many times. Shuffled
is only what can change places under the null hypothesis (``arrangements``), and the observed
errors are computed on the very same rows, so that the p-value (b + 1) / (m + 1) of a permutation
test holds exactly, subsample or not.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from repalign.core.resampling.evaluate import Evaluator, Values
from repalign.core.resampling.permutations import (
    FEWEST_ARRANGEMENTS,
    Arrangements,
    ShufflePlan,
    order_name,
)
from repalign.core.resampling.sample import Sample

# Tasks that the shuffles of a sample are cut into; few are computed twice after a stop.
N_TASKS = 32


@dataclass(frozen=True, eq=False)
class Null:
    """Values of maps or measures: as observed and with shuffled pairs, on the same rows.

    Attributes:
        observed: With the pairs as they are; the error on all rows differs a little where not
            all of them are kept or judged.
        shuffled: By shuffle; there is none where nothing can change places.
        arrangements: What was shuffled.
        n_judged: Rows on which the errors are means.
        orders: A name for each shuffle, equal where the same inputs are paired.
    """

    observed: Float[np.ndarray, " values"]
    shuffled: Float[np.ndarray, "shuffles values"]
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
        can = self.arrangements
        if can.is_sufficient:
            return None
        return (
            f"no p-value: {can.n_moving} of {can.n_units} groups can change places, in "
            f"{can.count} ways in all, and a p-value needs {FEWEST_ARRANGEMENTS}; use more "
            "groups of like sizes, or a split into fewer parts"
        )

    def p_values(self) -> Float[np.ndarray, " values"]:
        """Return (b + 1) / (m + 1), b the shuffles at least as close as what was observed.

        NaN where there are too few arrangements for that to mean anything.
        """
        if self.refusal is not None:
            return np.full(self.observed.shape, np.nan)
        # Equal up to rounding is "as close": the mean-only map never changes.
        tolerance = 1e-9 * np.abs(self.observed)
        as_close = (self.shuffled <= self.observed + tolerance).sum(axis=0)
        return (as_close + 1) / (len(self.shuffled) + 1)

    def means(self) -> Float[np.ndarray, " values"]:
        """Return the mean shuffled error of every map, NaN where there was no shuffle."""
        if len(self.shuffled) == 0:
            return np.full(self.observed.shape, np.nan)
        return self.shuffled.mean(axis=0)


@dataclass(frozen=True, eq=False)
class Task:
    """Some orders of the target's rows, and the names of all that their values depend on."""

    orders: Sequence[Int[np.ndarray, " kept"]]
    names: tuple[str, ...]

    @property
    def key(self) -> str:
        """Name of the values."""
        return f"shuffles-{hashlib.sha256(repr(self.names).encode()).hexdigest()[:24]}"


def evaluate_orders(
    machine: object, task: Task, evaluate: Evaluator, sample: Sample
) -> list[Values]:
    """Return the values of a sample with the target's rows in each order."""
    return [evaluate(sample.shuffled(order)) for order in task.orders]


def map_here(
    function: Callable[..., Any], tasks: Sequence[Any], *, shared: Callable[..., Any], **how: Any
) -> list[Any]:
    """Return a function of every task, one after the other: the map without an engine."""
    return [function(None, task, *shared(task)) for task in tasks]


def permutation_null(
    evaluate: Evaluator,
    sample: Sample,
    plan: ShufflePlan,
    *,
    n_shuffles: int,
    seed: int,
    name: str = "",
    map: Callable[..., list[Any]] = map_here,
) -> dict[str, Null]:
    """Return the null in-sample and, where the split judges rows, held-out.

    The orders follow from the plan and the seed alone, so that they are the same whatever is
    evaluated and whatever the rows hold.

    Args:
        evaluate: What is computed of every order.
        sample: The rows.
        plan: Which rows may change places.
        n_shuffles: How many orders, where there are as many.
        seed: Of the orders.
        name: Of the content of the sample, by which values are kept.
        map: Runs tasks of some orders each.
    """
    rng = np.random.default_rng(seed)
    nulls: dict[str, Null] = {}
    passes = [(sample, plan.within)]
    if plan.across is not None:
        passes.append((sample.unsplit(), plan.across))
    for rows, arrangements in passes:
        movable = rows.kept(arrangements, rng)
        orders = [np.arange(movable.n_rows), *arrangements.shuffles(n_shuffles, rng)]
        names = tuple(order_name(movable.places, order) for order in orders)
        size = -(-len(orders) // N_TASKS)
        starts = range(0, len(orders), size)
        results = map(
            evaluate_orders,
            [
                Task(orders[k : k + size], (name, *evaluate.names, *names[k : k + size]))
                for k in starts
            ],
            shared=partial(_shared, evaluate, movable),
        )
        draws = [values for of_task in results for values in of_task]
        nulls |= _nulls(movable, arrangements, draws, names[1:])
    return nulls


def _shared(evaluate: Evaluator, sample: Sample, task: Task) -> tuple[Evaluator, Sample]:
    return evaluate, sample


def _nulls(
    sample: Sample, arrangements: Arrangements, draws: Sequence[Values], names: tuple[str, ...]
) -> dict[str, Null]:
    """Return the nulls of both kinds of split; the first draw is the order as it is."""
    tables = {"in-sample": (np.array([values[0] for values in draws]), sample.n_judging)}
    parts = sample.split.judged
    if parts:
        n_judged = sum(sample.rows_in(part)[0].shape[0] for part in parts)
        tables["held-out"] = np.array([values[1] for values in draws]), n_judged
    return {
        split: Null(table[0], table[1:], arrangements, n_judged, names)
        for split, (table, n_judged) in tables.items()
    }
