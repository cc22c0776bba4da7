"""How often p-values and intervals of `repalign.compare` hold what they claim, by what it prints.

Pairs of known laws go through the public function, and the columns of its records are counted:
p ≤ .05 of unrelated sides, and intervals that hold their claim of related ones. In-sample the claim
is the average over samples, for which the mean over the trials stands; held-out it is the error of
the fitted maps on new rows; of the efficiency the average over samples.

    python benchmarks/calibration.py --trials 200 --laws gaussian,t3 --maps rigid,linear
"""

import argparse
import csv
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

import repalign

Rng = np.random.Generator
Pair = tuple[np.ndarray, np.ndarray]
N_NEW = 20_000
NOISE = 0.5
MAPS = "mean,permutation,rigid,linear"
MEASURES = "linear-cka,mean-cca,pooled-r2,mutual-knn,rsa-spearman,svcca-3"


@dataclass(frozen=True)
class Law:
    """Rows of one side: their number, their groups, and how independent ones are drawn."""

    n_groups: int
    group_sizes: Callable[[int], np.ndarray]
    dim: int
    draw: Callable[[np.ndarray, int, Rng], np.ndarray]

    def groups(self) -> np.ndarray:
        """Return the group of every row."""
        sizes = self.group_sizes(self.n_groups)
        return np.repeat(np.arange(sizes.size), sizes)


def alone(n: int) -> np.ndarray:
    return np.ones(n, dtype=np.int64)


def of_size(size: int, n: int) -> np.ndarray:
    return np.full(n, size)


def unequal(n: int) -> np.ndarray:
    """Return sizes from 4 to 24, worth more than ten groups."""
    return np.linspace(4, 24, n).astype(np.int64)


def shared(
    values: Callable[[tuple[int, int], Rng], np.ndarray], icc: float
) -> Callable[[np.ndarray, int, Rng], np.ndarray]:
    """Return rows of which groups share a part of their variance."""

    def draw(groups: np.ndarray, dim: int, rng: Rng) -> np.ndarray:
        noise = values((groups.size, dim), rng)
        if icc == 0:
            return noise
        common = values((int(groups[-1]) + 1, dim), rng)[groups]
        return np.sqrt(icc) * common + np.sqrt(1 - icc) * noise

    return draw


def autoregressive(groups: np.ndarray, dim: int, rng: Rng) -> np.ndarray:
    """Return rows that follow each other inside their group, lag-one correlation .9."""
    rows = rng.standard_normal((groups.size, dim))
    for row in range(1, groups.size):
        if groups[row] == groups[row - 1]:
            rows[row] = 0.9 * rows[row - 1] + np.sqrt(1 - 0.81) * rows[row]
    return rows


def clusters(groups: np.ndarray, dim: int, rng: Rng) -> np.ndarray:
    centres = 3 * np.random.default_rng(7).standard_normal((10, dim))
    return centres[rng.integers(0, 10, groups.size)] + rng.standard_normal((groups.size, dim))


LAWS = {
    "gaussian": Law(300, alone, 5, shared(lambda size, rng: rng.standard_normal(size), 0)),
    "t3": Law(300, alone, 5, shared(lambda size, rng: rng.standard_t(3, size), 0)),
    "lognormal": Law(600, alone, 5, shared(lambda size, rng: rng.lognormal(0, 1, size), 0)),
    "sparse ReLU": Law(
        300, alone, 12, shared(lambda size, rng: np.maximum(rng.standard_normal(size) - 0.5, 0), 0)
    ),
    "clusters": Law(300, alone, 6, clusters),
    "laplace": Law(300, alone, 4, shared(lambda size, rng: rng.laplace(size=size), 0)),
    "AR groups": Law(20, partial(of_size, 15), 5, autoregressive),
    "laplace groups": Law(
        30, partial(of_size, 10), 4, shared(lambda size, rng: rng.laplace(size=size), 0.2)
    ),
    "unequal t3 groups": Law(
        25, unequal, 5, shared(lambda size, rng: rng.standard_t(3, size), 0.3)
    ),
    "binary": Law(300, alone, 12, shared(lambda size, rng: rng.integers(0, 2, size) * 1.0, 0)),
}


def related(law: Law, groups: np.ndarray, rng: Rng) -> Pair:
    """Return a source and its rotation with noise of the same law."""
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((law.dim, law.dim)))[0]
    x = law.draw(groups, law.dim, rng)
    return x, x @ turn + NOISE * law.draw(groups, law.dim, rng)


@cache
def new_rows(name: str) -> tuple[np.ndarray, np.ndarray, float]:
    """Return new rows of both sides, and the RMS radius of the target."""
    law = LAWS[name]
    x, y = related(law, np.arange(N_NEW), np.random.default_rng(10**6))
    return x, y, float(np.sqrt(((y - y.mean(0)) ** 2).sum(1).mean()))


def compared(name: str, pair: Pair, trial: int, maps: str, measures: str):
    law = LAWS[name]
    groups = law.groups()
    return repalign.compare(
        *pair,
        groups=None if groups[-1] == groups.size - 1 else groups,
        maps=maps.split(",") if maps else "none",
        measures=measures.split(",") if measures else [],
        map_rows="training",
        null=19,
        rotations=19,
        starts=1,
        seed=trial,
    )


def false_positives(
    name: str, maps: str, measures: str, trial: int
) -> dict[tuple[str, ...], float]:
    """Return by column, number and split whether unrelated sides have p ≤ .05."""
    law, rng = LAWS[name], np.random.default_rng((trial, 1))
    pair = law.draw(law.groups(), law.dim, rng), law.draw(law.groups(), law.dim, rng)
    result = compared(name, pair, trial, maps, measures)
    positives: dict[tuple[str, ...], float] = {}
    for record in (*result.records, *result.measures):
        measured = getattr(record, "map", None) or getattr(record, "measure", "")
        for column in ("p_value", "efficiency_p"):
            value = getattr(record, column, None)
            if value is not None:
                positives[column, measured, record.split] = float(value <= 0.05 + 1e-12)
    return positives


Claim = tuple[float, float, float, float]
"""Value, low, high, and what the interval should hold (NaN: the average over the trials)."""


def intervals(name: str, maps: str, measures: str, trial: int) -> dict[tuple[str, ...], Claim]:
    """Return by column, number and split the intervals of related sides."""
    law, rng = LAWS[name], np.random.default_rng((trial, 2))
    result = compared(name, related(law, law.groups(), rng), trial, maps, measures)
    x, y, radius = new_rows(name)
    claims: dict[tuple[str, ...], Claim] = {}
    for record in result.records:
        truth = float("nan")
        if record.split == "held-out":
            truth = float(np.linalg.norm(result.maps[0][record.map].apply(x) - y, axis=1).mean())
        # options the diameter: an interval of the mean norm
        key, scale = (record.map, record.split), record.diameter
        ends = [record.error, record.ci_low, record.ci_high]
        if None not in ends:
            claims["error", *key] = (*(end * scale for end in ends), truth)  # type: ignore[assignment]
        ends = [record.error_over_rms_radius, record.rms_low, record.rms_high]
        if None not in ends:
            claims["rms", *key] = (*ends, truth / radius)  # type: ignore[assignment]
        ends = [record.efficiency, record.efficiency_low, record.efficiency_high]
        if None not in ends:
            claims["efficiency", *key] = (*ends, float("nan"))  # type: ignore[assignment]
    for measure in result.measures:
        ends = [measure.value, measure.ci_low, measure.ci_high]
        if None not in ends and measure.split == "in-sample":
            claims["measure", measure.measure, measure.split] = (*ends, float("nan"))  # type: ignore[assignment]
    return claims


def coverage(
    trials: list[dict[tuple[str, ...], Claim]],
) -> Iterator[tuple[tuple[str, ...], list[float]]]:
    """Yield by number the share of intervals that hold, their half width, and the trials."""
    claims: dict[tuple[str, ...], list[Claim]] = defaultdict(list)
    for trial in trials:
        for key, claim in trial.items():
            claims[key].append(claim)
    for key, rows in claims.items():
        values, low, high, truth = np.array(rows).T
        # ICA maps are average-case too: what other samples would give
        truth = np.where(np.isnan(truth) | ("ica" in key[1]), values.mean(), truth)
        held = float(((low <= truth) & (truth <= high)).mean())
        yield key, [held, float(np.median(high - low) / 2), float(values.std()), len(rows)]


def main() -> None:
    """Count, and write one line a number."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--laws", default=",".join(LAWS))
    parser.add_argument("--maps", default=MAPS)
    parser.add_argument("--measures", default=MEASURES)
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    writer = csv.writer(sys.stdout)
    writer.writerow(
        ["law", "counted", "column", "of", "split", "share", "half width", "sd", "trials"]
    )
    with ProcessPoolExecutor(options.workers) as pool:
        for name in options.laws.split(","):
            numbers = range(options.trials)
            positive = defaultdict(list)
            for trial in pool.map(
                partial(false_positives, name, options.maps, options.measures), numbers
            ):
                for key, value in trial.items():
                    positive[key].append(value)
            for key, values in positive.items():
                writer.writerow(
                    [name, "p ≤ .05", *key, f"{np.mean(values):.3f}", "", "", len(values)]
                )
            trials = list(
                pool.map(partial(intervals, name, options.maps, options.measures), numbers)
            )
            for key, (held, half, sd, n) in coverage(trials):
                writer.writerow([name, "95 %", *key, f"{held:.3f}", f"{half:.4f}", f"{sd:.4f}", n])
            sys.stdout.flush()


if __name__ == "__main__":
    main()
