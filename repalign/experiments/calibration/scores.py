"""False positives and coverage of the disentanglement scores, by the functions of ``disentangle``.

Three factors, two of classes and a number. For false positives latents and factors are drawn
apart; for coverage each factor is made of one latent, with noise.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from repalign.core.factors.kinds import GROUPS
from repalign.core.inference.left_out import worth_of
from repalign.experiments.calibration.laws import (
    CalibrationCase,
    draw_gaussian,
    groups_of,
)
from repalign.experiments.reproduce.experiment import Measured

if TYPE_CHECKING:
    from repalign.aliases import FloatArray, IntArray
    from repalign.core.factors.encoding import Factors

N_SHUFFLES, N_HALVES, N_BINS = 19, 20, 5
N_FACTORS = 3
NOISE = 0.5
REPEATED = tuple(score.name for group in GROUPS if group.is_repeatable for score in group.scores)
Rng = np.random.Generator


def false_positives(case: CalibrationCase, trials: Sequence[int]) -> list[Measured]:
    """Return the share of p ≤ .05 by score, where latents and factors have nothing in common."""
    from repalign.core.factors.judging import shuffled_scores
    from repalign.core.factors.scores import ScoreSettings, score_factors
    from repalign.core.factors.shuffles import plan_shuffle

    def one(trial: int) -> dict[str, float]:
        rng, groups = np.random.default_rng((trial, 7)), groups_of(case)
        latents = draw_gaussian(groups, case.icc, rng)
        settings = ScoreSettings(groups=case.scores, seed=trial)
        found = score_factors(_unrelated(case, groups, rng), latents, settings)
        plan = plan_shuffle(found.evidence.factors, groups, seed=trial)
        nulls = shuffled_scores(found, settings, plan, n_draws=N_SHUFFLES)
        p_values = {score.name: nulls.p_value(score.name) for score in found.scores}
        # rounding of 1/20
        return {name: float(p <= 0.05 + 1e-12) for name, p in p_values.items() if p is not None}

    return _shares("p ≤ .05", one, trials)


def coverage(case: CalibrationCase, trials: Sequence[int]) -> list[Measured]:
    """Return the share of intervals that hold the score's average over samples of this size.

    The mean over the trials stands for that average.
    """
    from repalign.core.factors.judging import half_sample_scores, judge_scores
    from repalign.core.factors.scores import ScoreSettings, score_factors

    found = []
    for trial in trials:
        rng, groups = np.random.default_rng((trial, 8)), groups_of(case)
        latents = draw_gaussian(groups, case.icc, rng)
        noise = NOISE * draw_gaussian(groups, case.icc, rng, N_FACTORS)
        factors = _encoded(latents[:, :N_FACTORS] + noise)
        settings = ScoreSettings(groups=case.scores, seed=trial)
        scored = score_factors(factors, latents, settings)
        halves = half_sample_scores(scored, settings, n_draws=N_HALVES, groups=groups)
        judged = judge_scores(scored, None, halves, worth=worth_of(np.bincount(groups)))
        found.append(
            {
                each.score.name: (each.score.value, each.low, each.high)
                for each in judged
                if each.score.value is not None and each.low is not None and each.high is not None
            }
        )
    average = {
        name: float(np.mean([each[name][0] for each in found if name in each]))
        for name in REPEATED
        if any(name in each for each in found)
    }

    def one(trial: int) -> dict[str, float]:
        return {
            name: float(low <= average[name] <= high)
            for name, (_, low, high) in found[trial - trials[0]].items()
        }

    return _shares("held", one, trials)


def _shares(
    told: str, one: Callable[[int], dict[str, float]], trials: Sequence[int]
) -> list[Measured]:
    """Return the mean of what every trial says of every score; trials that say nothing are out."""
    values: dict[str, list[float]] = {}
    for trial in trials:
        for name, value in one(trial).items():
            values.setdefault(name, []).append(value)
    return [
        Measured(f"{told}, {name}", float(np.mean(values[name])))
        for name in REPEATED
        if name in values
    ]


def _unrelated(case: CalibrationCase, groups: "IntArray", rng: Rng) -> "Factors":
    """Return factors of their own: the same in all rows of a group, or alike there."""
    if case.factors == "constant":
        return _encoded(rng.standard_normal((groups[-1] + 1, N_FACTORS))[groups])
    return _encoded(draw_gaussian(groups, case.icc, rng, N_FACTORS))


def _encoded(values: "FloatArray") -> "Factors":
    """Return two factors of three and four classes, and one that is a number."""
    from repalign.core.factors.encoding import encode_factors

    columns = {
        "shape": np.digitize(values[:, 0], [-0.5, 0.5]),
        "hue": np.digitize(values[:, 1], [-0.7, 0.0, 0.7]),
        "size": values[:, 2],
    }
    kinds = {"shape": "discrete", "hue": "discrete", "size": "continuous"}
    return encode_factors(columns, kinds=kinds, n_bins=N_BINS)
