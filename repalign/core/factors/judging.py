"""Every score beside what chance scores, how often chance does as well, and an interval."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int
from scipy.stats import t as student

from repalign.core.factors.encoding import Factors
from repalign.core.factors.kinds import GROUPS
from repalign.core.factors.scores import FactorScores, ScoreSettings, score_factors
from repalign.core.factors.shuffles import FactorShuffle
from repalign.core.resampling.intervals import count_groups
from repalign.core.rows import OnProgress
from repalign.core.score import Score

# Their bins follow the range of the values, which half-samples do not share: intervals from these
# hold in .61 to .85 of samples (t3 rows, clusters) instead of .95.
WITHOUT_INTERVAL = frozenset({"modularity"})
REPEATABLE = frozenset(group.name for group in GROUPS if group.is_repeatable)


@dataclass(frozen=True)
class JudgedScore:
    """A score with what pure chance scores, how often chance does as well, and an interval."""

    score: Score
    null: float | None = None
    p_value: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, eq=False)
class ShuffledScores:
    """Scores with shuffled factors, and those as observed on the very same rows."""

    shuffle: FactorShuffle
    observed: Mapping[str, float]
    draws: Mapping[str, Sequence[float]]

    def p_value(self, name: str) -> float | None:
        """Return (b + 1) / (m + 1), b the shuffles that score at least as high."""
        if name not in self.observed or not self.shuffle.is_sufficient:
            return None
        drawn = np.array(self.draws.get(name, ()))
        if not drawn.size:
            return None
        # Equal up to rounding is "as high": some arrangements have the same score by symmetry.
        value = self.observed[name] - 1e-9 * abs(self.observed[name])
        return float((drawn >= value).sum() + 1) / (drawn.size + 1)


def shuffled_scores(
    found: FactorScores,
    settings: ScoreSettings,
    shuffle: FactorShuffle,
    *,
    n_draws: int,
    on_progress: OnProgress | None = None,
) -> ShuffledScores:
    """Score again and again with the factors shuffled, all factors of a row kept together."""
    factors, latents = found.evidence.factors, found.evidence.latents
    quick = repeatable(settings)
    observed = _defined(found)
    if shuffle.kept.size < len(latents) and quick.groups and n_draws:
        # A p-value holds only if what was observed is scored on the rows that are shuffled.
        observed = _defined(score_factors(factors.deal(shuffle.kept), latents[shuffle.kept], quick))
    rng = np.random.default_rng([settings.seed, 1])
    draws = ((factors.deal(rows), shuffle.kept) for rows in shuffle.draws(n_draws, rng))
    drawn = _repeat(latents, quick, draws, n_draws, on_progress)
    return ShuffledScores(shuffle, observed, drawn)


def half_sample_scores(
    found: FactorScores,
    settings: ScoreSettings,
    *,
    n_draws: int,
    groups: Int[np.ndarray, " n"] | None = None,
    on_progress: OnProgress | None = None,
) -> dict[str, list[float]]:
    """Score random halves of the groups of rows; their spread is that of the score on all.

    A bootstrap would repeat rows, and repeated rows are each other's nearest neighbours: it
    ruins the mutual informations. The variance over half-samples is that of the score on all
    rows (delete-half jackknife, Shao and Wu 1989). Rows of one group are drawn together.
    """
    factors, latents = found.evidence.factors, found.evidence.latents
    members = np.arange(len(latents)) if groups is None else groups
    _, member = np.unique(members, return_inverse=True)
    n_groups = int(member.max()) + 1
    if count_groups(members).refusal is not None:
        return {}
    rng = np.random.default_rng([settings.seed, 2])

    def halves() -> Iterable[Int[np.ndarray, " h"]]:
        for _ in range(n_draws):
            is_drawn = np.zeros(n_groups, dtype=np.bool_)
            is_drawn[rng.permutation(n_groups)[: n_groups // 2]] = True
            yield np.flatnonzero(is_drawn[member])

    draws = ((factors.take(half), half) for half in halves())
    return _repeat(latents, repeatable(settings), draws, n_draws, on_progress)


def judge_scores(
    found: FactorScores,
    nulls: ShuffledScores | None,
    halves: Mapping[str, Sequence[float]],
    *,
    level: float = 0.95,
) -> tuple[JudgedScore, ...]:
    """Put every score beside its null (mean, one-sided p-value) and its interval.

    The interval is Student's, from the deviation of the half-samples.
    """
    judged = []
    for score in found.scores:
        null, p_value, low, high = None, None, None, None
        if nulls is not None and nulls.draws.get(score.name):
            null = float(np.mean(nulls.draws[score.name]))
            p_value = nulls.p_value(score.name)
        spread = halves.get(score.name, [])
        has_interval = len(spread) > 1 and score.name not in WITHOUT_INTERVAL
        if has_interval and score.value is not None:
            quantile = student.ppf((1 + level) / 2, len(spread) - 1)
            reach = float(quantile * np.std(spread, ddof=1))
            low = score.value - reach
            # No score passes 1 but by the noise of the estimator.
            high = max(score.value, min(1.0, score.value + reach))
        judged.append(JudgedScore(score, null, p_value, low, high))
    return tuple(judged)


def repeatable(settings: ScoreSettings) -> ScoreSettings:
    """Return the settings without the scores that are too dear to be computed many times."""
    return replace(settings, groups=tuple(name for name in settings.groups if name in REPEATABLE))


def _repeat(
    latents: Float[np.ndarray, "n l"],
    settings: ScoreSettings,
    draws: Iterable[tuple[Factors, np.ndarray]],
    n_draws: int,
    on_progress: OnProgress | None,
) -> dict[str, list[float]]:
    """Score factors beside the latents of some rows, draw by draw."""
    values: dict[str, list[float]] = {}
    if not settings.groups:
        return values
    for done, (drawn, rows) in enumerate(draws, start=1):
        # A half can miss all classes of a rare factor but one; it then says nothing.
        if (drawn.codes.max(axis=0) > 0).all():
            found = score_factors(drawn, latents[rows], settings)
            for name, value in _defined(found).items():
                values.setdefault(name, []).append(value)
        if on_progress is not None:
            on_progress(done, n_draws)
    return values


def _defined(found: FactorScores) -> dict[str, float]:
    return {score.name: score.value for score in found.scores if score.value is not None}
