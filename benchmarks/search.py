"""Who looks at all layers of two models: how often is something found where there is nothing?

    python -m benchmarks.search --trials 500

Two models of some layers, whose rows come in 30 groups of 10 and whose layers hang together
(correlation .7 before they are mixed); the models are unrelated, or one layer of each shares a
part. Every pair of layers is tested by 99 shuffles of whole groups, the same for all pairs.
"""

import argparse
from collections.abc import Callable

import numpy as np
from scipy.stats import binomtest

from repalign.core.measures import measures_called
from repalign.core.moments import pair_moments
from repalign.core.resampling.best import Draws, searched_p
from repalign.core.resampling.evaluate import MapEvaluator, MeasureEvaluator
from repalign.core.resampling.groups import no_split
from repalign.core.resampling.nulls import permutation_null
from repalign.core.resampling.permutations import plan_shuffles
from repalign.core.resampling.sample import Sample
from repalign.core.rows import ArrayRows

MAPS = ("rigid", "linear")
MEASURES = measures_called(["linear-cka", "pooled-r2", "mutual-knn-10"])
NAMES = (*MAPS, *(measure.name for measure in MEASURES))
GROUPS = np.repeat(np.arange(30), 10)
WIDTHS = (3, 4, 6, 8)
N_SHUFFLES = 99

Model = list[np.ndarray]


def rows_of(width: int, rng: np.random.Generator) -> np.ndarray:
    """Rows of which half of the variance is that of their group."""
    shared = rng.standard_normal((30, width))[GROUPS]
    return np.sqrt(0.5) * (shared + rng.standard_normal((GROUPS.size, width)))


def model(n_layers: int, rng: np.random.Generator) -> Model:
    """Layers of a model: what all of them have, and their own, mixed."""
    common = rows_of(max(WIDTHS), rng)
    layers = []
    for number in range(n_layers):
        width = WIDTHS[number % len(WIDTHS)]
        values = np.sqrt(0.7) * common[:, :width] + np.sqrt(0.3) * rows_of(width, rng)
        layers.append(values @ rng.standard_normal((width, width)))
    return layers


def aligned(first: Model, second: Model, rng: np.random.Generator) -> None:
    """Let the last layers share a part."""
    source, target = first[-1], second[-1]
    mixed = (source / source.std(axis=0)) @ rng.standard_normal((source.shape[1], target.shape[1]))
    second[-1] = target + 0.25 * mixed


# Moments alone and rows are read by evaluators of their own.
EVALUATORS = (
    MapEvaluator(MAPS),
    MeasureEvaluator(MEASURES[:2], memory_bytes=2**28),
    MeasureEvaluator(MEASURES[2:], memory_bytes=2**28),
)


def sample_of(x: np.ndarray, y: np.ndarray) -> Sample:
    rows = ArrayRows(x), ArrayRows(y)
    numbers = np.arange(GROUPS.size)
    return Sample(*rows, no_split(GROUPS.size), GROUPS, numbers, True, pair_moments(*rows))


def drawn(first: Model, second: Model, seed: int) -> np.ndarray:
    """Errors by order (the observed first), pair, and map or measure."""
    plan = plan_shuffles(GROUPS, no_split(GROUPS.size), seed=seed)
    tables = []
    for x in first:
        for y in second:
            sample = sample_of(x, y)
            nulls = [
                permutation_null(evaluate, sample, plan, n_shuffles=N_SHUFFLES, seed=seed)
                for evaluate in EVALUATORS
            ]
            tested = [each["in-sample"] for each in nulls]
            assert len({null.orders for null in tested}) == 1
            parts = [np.vstack([null.observed, null.shuffled]) for null in tested]
            tables.append(np.hstack(parts))
    return np.stack(tables, axis=1)


def plain(errors: np.ndarray) -> np.ndarray:
    return (errors <= errors[0]).mean(axis=0)


def corrected(errors: np.ndarray) -> np.ndarray:
    orders = tuple(map(str, range(len(errors) - 1)))
    return searched_p([Draws(orders, column) for column in errors.T])[0]


def shuffled_only(errors: np.ndarray) -> np.ndarray:
    """Standardised by the shuffled orders alone, which does not hold."""
    z = (errors - errors[1:].mean(axis=0)) / errors[1:].std(axis=0)
    return (z.min(axis=1)[:, None] <= z[0]).mean(axis=0)


WAYS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "each pair alone": plain,
    "standardised by shuffles alone": shuffled_only,
    "the best of all orders (p_search)": corrected,
}


def found(n_layers: int, trials: int, *, related: bool) -> dict[str, np.ndarray]:
    """Share of trials in which some pair (or the aligned one) has p ≤ .05, by way and name."""
    counts = {way: np.zeros(len(NAMES)) for way in WAYS}
    for trial in range(trials):
        rng = np.random.default_rng(trial)
        first, second = model(n_layers, rng), model(n_layers, rng)
        if related:
            aligned(first, second, rng)
        errors = drawn(first, second, trial)
        for way, p_values in WAYS.items():
            for number in range(len(NAMES)):
                p = p_values(errors[:, :, number])
                counts[way][number] += (p[-1] if related else p.min()) <= 0.05
    return {way: count / trials for way, count in counts.items()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=500)
    parser.add_argument("--layers", type=int, default=3)
    given = parser.parse_args()
    inside = binomtest(round(0.05 * given.trials), given.trials).proportion_ci(0.99, "exact")
    print(f"{given.layers} × {given.layers} layers, {given.trials} trials, {N_SHUFFLES} shuffles;")
    print(f"99 % binomial interval of .05: {inside.low:.3f} to {inside.high:.3f}\n")
    print(f"| | p | {' | '.join(NAMES)} |")
    print("|---|---|" + "---|" * len(NAMES))
    for title, related in (("unrelated, any pair", False), ("one pair aligned, that pair", True)):
        for way, shares in found(given.layers, given.trials, related=related).items():
            cells = " | ".join(f"{share:.3f}".removeprefix("0") for share in shares)
            print(f"| {title} | {way} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
