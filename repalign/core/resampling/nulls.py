"""What the errors would be if the rows were not paired: the shuffled-pairing null.

The target's rows are shuffled, all maps are fitted again and judged again, many times. Shuffled
is only what can change places under the null hypothesis (``arrangements``), and the observed
errors are computed on the very same rows, so that the p-value (b + 1) / (m + 1) of a permutation
test holds exactly, subsample or not.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
        orders: A name for each shuffle, equal where the same inputs are paired.
    """

    observed: Float[np.ndarray, " values"]
    shuffled: Float[np.ndarray, "shuffles values"]
    arrangements: Arrangements
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


# A name of all that the values of some orders of the target's rows depend on, and these orders.
Task = tuple[str, Sequence[Int[np.ndarray, " kept"]]]


def evaluate_orders(
    machine: object, task: Task, evaluate: Evaluator, sample: Sample
) -> list[Values]:
    """Return the values of a sample with the target's rows in each order."""
    _, orders = task
    return [evaluate(sample.shuffled(order)) for order in orders]


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
    nulls, splits = dict[str, Null](), ("in-sample", "held-out")
    passes = [(sample, plan.within)]
    if plan.across is not None:
        passes.append((sample.unsplit(), plan.across))
    for rows, arrangements in passes:
        movable = rows.kept(arrangements, rng)
        orders = [np.arange(movable.n_rows), *arrangements.shuffles(n_shuffles, rng)]
        names = tuple(order_name(movable.places, order) for order in orders)
        size = -(-len(orders) // N_TASKS)
        tasks = []
        for start in range(0, len(orders), size):
            content = (name, *evaluate.names, *names[start : start + size])
            key = f"shuffles-{hashlib.sha256(repr(content).encode()).hexdigest()[:24]}"
            tasks.append((key, orders[start : start + size]))
        shared = evaluate, movable
        results = map(evaluate_orders, tasks, shared=lambda _, shared=shared: shared)
        draws = [values for of_task in results for values in of_task]
        for number, split in enumerate(splits if movable.split.judged else splits[:1]):
            table = np.array([values[number] for values in draws])  # first the order as it is
            nulls[split] = Null(table[0], table[1:], arrangements, names[1:])
    return nulls
