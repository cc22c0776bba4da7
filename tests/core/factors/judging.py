"""Scores with their nulls and intervals, without an engine."""

import numpy as np

from repalign.core.factors.encoding import Factors
from repalign.core.factors.judging import (
    JudgedScore,
    half_draws,
    judge_score,
    score_draws,
    shuffled_draws,
)
from repalign.core.factors.scores import ScoreSettings, score_factors, score_names
from repalign.core.factors.shuffles import plan_shuffle


def judged(
    factors: Factors,
    latents: np.ndarray,
    settings: ScoreSettings,
    *,
    groups: np.ndarray | None = None,
    n_null: int = 0,
    n_halves: int = 0,
) -> dict[str, JudgedScore]:
    shuffle = plan_shuffle(factors, groups)
    groups = np.arange(len(latents)) if groups is None else groups
    shuffled, halves = (
        score_draws(draws, factors, latents, settings)
        for draws in (shuffled_draws(shuffle, n_null, 0), half_draws(groups, n_halves, 0))
    )
    columns = {name: k for k, name in enumerate(score_names(settings.groups, repeatable=True))}
    return {
        score.name: judge_score(
            score,
            shuffled[:, columns[score.name]],
            halves[:, columns[score.name]],
            shuffle,
            groups,
        )
        for score in score_factors(factors, latents, settings).scores
    }
