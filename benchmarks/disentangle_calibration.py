"""How often the shuffled-factor null cries wolf, and how often the intervals cover, by simulation.

python benchmarks/disentangle_calibration.py --cell "15 × 20, constant" --trials 400

Latents and factors are independent, so that every small p-value is false. 19 shuffles: a test at
.05 is then exact. Prints one JSON object: for each score the share of trials with p ≤ .05.
"""

import argparse
import json
from collections.abc import Callable

import numpy as np

from repalign.core.factors.encoding import Factors, encode_factors
from repalign.core.factors.judging import shuffled_scores
from repalign.core.factors.kinds import DEFAULT_GROUPS
from repalign.core.factors.scores import ScoreSettings, score_factors
from repalign.core.factors.shuffles import FactorShuffle, plan_shuffle

N_SHUFFLES = 19
N_LATENTS = 4
# Sizes of 30 groups: 90, 45, 30, …, 3.
UNEQUAL = 90 // np.arange(1, 31)

Rng = np.random.Generator


def in_groups(member: np.ndarray, width: int, share: float, rng: Rng) -> np.ndarray:
    """Draw rows of unit variance, of which a share is that of their group."""
    groups = rng.normal(size=(member.max() + 1, width))
    own = rng.normal(size=(member.size, width))
    return np.sqrt(share) * groups[member] + np.sqrt(1 - share) * own


def constant_factors(member: np.ndarray, rng: Rng) -> Factors:
    n_groups = member.max() + 1
    columns = {
        "shape": rng.integers(0, 3, n_groups)[member],
        "hue": rng.integers(0, 4, n_groups)[member],
        "size": rng.normal(size=n_groups)[member],
    }
    kinds = {"shape": "discrete", "hue": "discrete", "size": "continuous"}
    return encode_factors(columns, kinds=kinds, n_bins=5)


def varying_factors(member: np.ndarray, rng: Rng) -> Factors:
    """Factors that resemble each other inside groups, and differ."""
    values = in_groups(member, 3, 0.8, rng)
    columns = {
        "shape": np.digitize(values[:, 0], [-0.5, 0.5]),
        "hue": np.digitize(values[:, 1], [-0.7, 0.0, 0.7]),
        "size": values[:, 2],
    }
    kinds = {"shape": "discrete", "hue": "discrete", "size": "continuous"}
    return encode_factors(columns, kinds=kinds, n_bins=5)


def rows_alone(factors: Factors, _: np.ndarray) -> FactorShuffle:
    """The shuffle that ignores groups, as a warning."""
    return plan_shuffle(factors)


ROWS = np.arange(300)
EQUAL = np.repeat(np.arange(15), 20)
SHORT = np.repeat(np.arange(30), 10)
LONG_TAIL = np.repeat(np.arange(UNEQUAL.size), UNEQUAL)

Draw = Callable[[np.ndarray, Rng], Factors]
Plan = Callable[[Factors, np.ndarray], FactorShuffle]

# Name: (groups, share of the group in a latent's variance, factors, shuffle)
CELLS: dict[str, tuple[np.ndarray, float, Draw, Plan]] = {
    "300 independent rows": (ROWS, 0.0, constant_factors, plan_shuffle),
    "15 × 20, constant": (EQUAL, 0.8, constant_factors, plan_shuffle),
    "15 × 20, constant, rows shuffled": (EQUAL, 0.8, constant_factors, rows_alone),
    "30 unequal, constant": (LONG_TAIL, 0.8, constant_factors, plan_shuffle),
    "30 × 10, varying": (SHORT, 0.8, varying_factors, plan_shuffle),
    "30 unequal, varying": (LONG_TAIL, 0.8, varying_factors, plan_shuffle),
}


def false_positives(cell: str, n_trials: int, groups: tuple[str, ...]) -> dict[str, object]:
    member, share, draw, plan = CELLS[cell]
    small: dict[str, list[bool]] = {}
    for trial in range(n_trials):
        rng = np.random.default_rng([trial, 7])
        latents = in_groups(member, N_LATENTS, share, rng)
        factors = draw(member, rng)
        if (factors.codes.max(axis=0) == 0).any() or len(factors.names) < 3:
            continue  # a factor came out constant: nothing to test
        settings = ScoreSettings(groups=groups, seed=trial)
        found = score_factors(factors, latents, settings)
        nulls = shuffled_scores(found, settings, plan(factors, member), n_draws=N_SHUFFLES)
        for score in found.scores:
            p = nulls.p_value(score.name)
            if p is not None:
                small.setdefault(score.name, []).append(p <= 0.05 + 1e-12)
    return {
        name: {"rate": float(np.mean(found)), "trials": len(found)} for name, found in small.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cell", choices=CELLS, action="append")
    parser.add_argument("--trials", type=int, default=400)
    parser.add_argument("--scores", default=",".join((*DEFAULT_GROUPS, "sap", "explicitness")))
    asked = parser.parse_args()
    for cell in asked.cell or CELLS:
        rates = false_positives(cell, asked.trials, tuple(asked.scores.split(",")))
        print(json.dumps({"cell": cell, "shuffles": N_SHUFFLES, "rates": rates}), flush=True)


if __name__ == "__main__":
    main()
