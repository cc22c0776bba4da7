"""Does the interval of one run hold the ICA efficiency of another, on real pairs?

    python -m benchmarks.repeats a.h5 b.h5 --orders 10 --seeds 5

The same pair is compared with its rows in several orders and from several seeds: each run has
other starts of ICA. Rows carry their group along, so that runs of one seed hold out the same rows
whatever their order. Every ordered pair of runs counts: in-sample over all runs, held-out over
runs of one seed, since another split is another quantity.
"""

import argparse
from itertools import permutations

import numpy as np

from repalign.store.joining.join import join_sources
from repalign.store.sources.opening import open_embeddings
from repalign.workflows.compare.run import compare
from repalign.workflows.compare.settings import CompareSettings

Run = tuple[float, float, float]


def efficiencies(
    x: np.ndarray, y: np.ndarray, groups: np.ndarray, order: int, seed: int
) -> dict[str, Run]:
    """Return the efficiency with the ends of its interval by split."""
    rows = np.random.default_rng(order).permutation(len(x)) if order else np.arange(len(x))
    settings = CompareSettings(seed=seed, n_null=0, n_rotations=0)
    result = compare(x[rows], y[rows], groups=groups[rows], settings=settings)
    return {
        record.split: (record.efficiency, record.efficiency_low, record.efficiency_high)
        for record in result.records
        if record.map == "ica"
    }


def share_inside(runs: list[Run]) -> tuple[int, int]:
    """Return how many of the ordered pairs of runs hold, and how many there are."""
    held = [low <= other[0] <= high for (_, low, high), other in permutations(runs, 2)]
    return sum(held), len(held)


def main() -> None:
    """Write one row of the table for each split."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("--orders", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--name", default="pair")
    given = parser.parse_args()
    join = join_sources([open_embeddings(given.source), open_embeddings(given.target)])
    x, y = (rows.read(0, rows.shape[0]) for rows in (join.source, join.target))
    runs = {
        (order, seed): efficiencies(x, y, join.index.sample, order, seed)
        for order in range(given.orders)
        for seed in range(given.seeds)
    }
    splits = {
        "in-sample": [[run["in-sample"] for run in runs.values()]],
        "held-out": [
            [run["held-out"] for (_, of), run in runs.items() if of == seed]
            for seed in range(given.seeds)
        ],
    }
    for split, alike in splits.items():
        counts = np.sum([share_inside(part) for part in alike], axis=0)
        values = np.array([run for part in alike for run in part])
        half = (values[:, 2] - values[:, 1]) / 2
        print(
            f"| {given.name}, {len(x)} × {x.shape[1]} → {y.shape[1]} | {split} | {len(runs)} "
            f"| {values[:, 0].min():.2f} to {values[:, 0].max():.2f} | {np.median(half):.2f} "
            f"| {counts[0] / counts[1]:.3f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
