"""How many groups do the in-sample intervals of ICA need? Counted of ``compare`` with its defaults.

    python -m benchmarks.few_groups --rows 300 --icc 0.2

Rows of the laws of ``repalign reproduce calibration``, which counts the same of one start of ICA:
the target is a rotation of the source with noise. The mean over the trials stands for what the
procedure gives on average.
"""

import argparse
from typing import get_args

import numpy as np

from repalign.core.thread_choice import one_thread
from repalign.experiments.calibration.laws import CalibrationCase, Sizes, groups_of
from repalign.experiments.calibration.maps import related_sides
from repalign.workflows.compare.run import compare
from repalign.workflows.compare.settings import CompareSettings

NUMBERS = ("ica", "efficiency")
Ends = tuple[float, float, float]


def intervals(groups: np.ndarray, icc: float, trial: int) -> list[Ends]:
    """Return the in-sample error of ICA and its efficiency, each with its interval."""
    source, target = related_sides(groups, icc, np.random.default_rng((trial, 4)))
    settings = CompareSettings(seed=trial, n_null=0, n_rotations=0)
    result = compare(source, target, groups=groups, settings=settings)
    ica = next(one for one in result.records if (one.split, one.map) == ("in-sample", "ica"))
    error = [_number(end) * ica.diameter for end in (ica.error, ica.ci_low, ica.ci_high)]
    efficiency = (ica.efficiency, ica.efficiency_low, ica.efficiency_high)
    return [tuple(error), tuple(_number(end) for end in efficiency)]


def _number(value: float | None) -> float:
    return np.nan if value is None else value


def shares_held(found: np.ndarray) -> list[str]:
    """Return how often the interval of each number holds the mean, of the trials that have one."""
    told = []
    for number in np.moveaxis(found, 1, 0):
        known = number[np.isfinite(number).all(axis=1)]
        middle = known[:, 0].mean()
        held = (known[:, 1] <= middle) & (middle <= known[:, 2])
        told.append(f"{held.mean():.3f}" + (f" ({len(known)})" if len(known) < len(found) else ""))
    return told


def main() -> None:
    """Write one row of the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=300)
    parser.add_argument("--sizes", choices=get_args(Sizes), default="groups of 10")
    parser.add_argument("--icc", type=float, default=0.2)
    parser.add_argument("--trials", type=int, default=400)
    given = parser.parse_args()
    case = CalibrationCase("", "coverage", given.rows, given.sizes, given.icc)
    groups = groups_of(case)
    with one_thread():
        found = np.array([intervals(groups, given.icc, trial) for trial in range(given.trials)])
    law = f"{groups.size} rows, {groups[-1] + 1} groups ({given.sizes}), ICC {given.icc:g}"
    print(f"| {law} | {given.trials} | {' | '.join(shares_held(found))} |", flush=True)


if __name__ == "__main__":
    main()
