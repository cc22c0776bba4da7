"""Are Gaussian pairs exchangeable with their Gaussian twins, for ICA on the same rows or on others?

    python -m benchmarks.twins --columns 40 --ica-rows disjoint --pairs 100

400 rows, one start of ICA, 4 twins a pair: exchangeable, a pair's efficiency is above all of its
twins in a fifth of the pairs, and below all in a fifth. The pairs are the first of those of
``repalign reproduce calibration --preset paper``.
"""

import argparse

import numpy as np

from repalign.experiments.papers.calibration import N_TWINS, twin_case, twin_efficiencies
from repalign.experiments.papers.reports.calibration import chance
from repalign.workflows.machine import Machine


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--columns", type=int, default=6)
    parser.add_argument("--ica-rows", choices=["same", "disjoint"], default="same")
    parser.add_argument("--pairs", type=int, default=100)
    given = parser.parse_args()
    case = twin_case(given.columns, given.ica_rows)
    found = [twin_efficiencies(case, trial, Machine()) for trial in range(given.pairs)]
    pairs = np.array([observed for observed, _ in found])
    twins = np.array([twins for _, twins in found])
    above, below = (pairs > twins.max(axis=1)).sum(), (pairs < twins.min(axis=1)).sum()
    low, high = chance(1 / (N_TWINS + 1), given.pairs)
    # mean difference with its standard error, over the spread of all twins
    apart = (pairs - twins.mean(axis=1)) / twins.std(ddof=1)
    error = apart.std(ddof=1) / given.pairs**0.5
    print(
        f"| {given.columns} columns, {given.ica_rows} rows | {given.pairs} | "
        f"{above / given.pairs:.3f} | {below / given.pairs:.3f} | "
        f"{apart.mean():.2f} ± {error:.2f} of their sd |"
    )
    print(f"99 % of chance: {low:.3f} to {high:.3f}")


if __name__ == "__main__":
    main()
