"""How often is the truly best layer among those that cannot be excluded?

    python -m benchmarks.matches --trials 400

A layer of one model against four of another, which are rotations of it with more and more noise:
the first is best, the second nearly so. 300 rows in 30 groups of 10, half of the variance shared
within groups, of the layer and of the noise.
"""

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from scipy.stats import binomtest

from benchmarks.search import GROUPS, rows_of
from repalign.workflows.compare.run import compare
from repalign.workflows.compare.settings import CompareSettings
from repalign.workflows.study.matches import MatchRecord

NOISE = (0.50, 0.55, 0.8, 1.2)
WIDTH = 4
SETTINGS = CompareSettings(
    maps=("rigid", "linear"),
    measures=("linear-cka", "pooled-r2", "mutual-knn-10", "procrustes-angle"),
    n_null=0,
    n_halves=30,
)
BEST = "noise-0"


def matches(trial: int, folder: Path) -> list[MatchRecord]:
    """Return the best match of the one layer, by every map and measure."""
    rng = np.random.default_rng(trial)
    x = rows_of(WIDTH, rng)
    turns = [np.linalg.qr(rng.standard_normal((WIDTH, WIDTH)))[0] for _ in NOISE]
    layers = {
        f"noise-{number}": x @ turn + noise * rows_of(WIDTH, rng)
        for number, (turn, noise) in enumerate(zip(turns, NOISE, strict=True))
    }
    np.savez(folder / "a.npz", layer=x)
    np.savez(folder / "b.npz", **layers)
    result = compare(f"{folder}/a.npz", f"{folder}/b.npz::*", groups=GROUPS, settings=SETTINGS)
    return [match for match in result.matches if match.side == "source"]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=400)
    given = parser.parse_args()
    inside = binomtest(round(0.95 * given.trials), given.trials).proportion_ci(0.99, "exact")
    found: dict[tuple[str, str], list[tuple[bool, bool, int]]] = {}
    with TemporaryDirectory() as folder:
        for trial in range(given.trials):
            for match in matches(trial, Path(folder)):
                assert match.plausible is not None, match.note
                told = (match.best == BEST, BEST in match.plausible, len(match.plausible))
                found.setdefault((match.by, match.split), []).append(told)
    print(f"{given.trials} trials; 99 % binomial interval of .95: {inside.low:.3f} to", end=" ")
    print(f"{inside.high:.3f}\n")
    print("| by | split | truly best found | among the plausible | plausible of 4 |")
    print("|---|---|---|---|---|")
    for (by, split), told in found.items():
        best, held, size = np.mean(told, axis=0)
        print(f"| `{by}` | {split} | {best:.3f} | {held:.3f} | {size:.2f} |")


if __name__ == "__main__":
    main()
