"""All disentanglement scores of one representation, with a null and an interval for each."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float

from repalign.core.factors.classic import (
    binned_mi,
    dci,
    mutual_information_gap,
    ranking_explicitness,
    separated_predictability,
    squared_modularity,
)
from repalign.core.factors.encoding import Factors
from repalign.core.factors.infomec import (
    InfoMecSettings,
    MutualInformation,
    compactness,
    compactness_gap,
    explicitness,
    modularity,
    modularity_gap,
    normalised_mi,
    uninformative,
)
from repalign.core.factors.recovery import linear_r2, linear_r2_held_out, mean_correlation
from repalign.core.score import Score
from repalign.exceptions import InputError

# The last three train predictors: seconds (dci: minutes) for each of many repetitions.
DEFAULT_GROUPS = ("infomec", "gaps", "mcc", "r2", "mig", "modularity")
SCORE_GROUPS = (*DEFAULT_GROUPS, "sap", "explicitness", "dci")


@dataclass(frozen=True)
class ScoreSettings:
    """Which groups of scores, and how InfoMEC is computed."""

    groups: tuple[str, ...] = DEFAULT_GROUPS
    infomec: InfoMecSettings = field(default_factory=InfoMecSettings)
    seed: int = 0


@dataclass(frozen=True, eq=False)
class FactorScores:
    """Scores in the order of the groups, the information behind them, and what to know of them."""

    scores: tuple[Score, ...]
    information: MutualInformation
    notes: tuple[str, ...] = ()

    def value(self, name: str) -> float | None:
        """Return one score by name; None where it is undefined.

        Raises InputError for a score that was not computed.
        """
        for score in self.scores:
            if score.name == name:
                return score.value
        raise InputError(
            f"no score is called {name}; there are {', '.join(s.name for s in self.scores)}"
        )


@dataclass(frozen=True)
class Judged:
    """A score with what pure chance scores, how often chance does as well, and an interval."""

    score: Score
    null: float | None = None
    p_value: float | None = None
    low: float | None = None
    high: float | None = None


def check_groups(groups: tuple[str, ...]) -> tuple[str, ...]:
    """Return the groups in their fixed order.

    Raises InputError on an unknown group or on none.
    """
    for group in groups:
        if group not in SCORE_GROUPS:
            raise InputError(
                f"no score group is called {group}; expected {', '.join(SCORE_GROUPS)}"
            )
    if not groups:
        raise InputError(f"no score group was given; expected some of {', '.join(SCORE_GROUPS)}")
    return tuple(group for group in SCORE_GROUPS if group in groups)


def score_factors(
    factors: Factors, latents: Float[np.ndarray, "n l"], settings: ScoreSettings | None = None
) -> FactorScores:
    """Score n rows of latents against their factors.

    Raises InputError when rows and factors do not pair, a latent is not finite, or a group is
    unknown.
    """
    settings = settings or ScoreSettings()
    groups = check_groups(settings.groups)
    _check_latents(factors, latents)
    rng = np.random.default_rng(settings.seed)
    information = normalised_mi(factors, latents, settings.infomec, rng)
    notes: list[str] = []
    scores: list[Score] = []
    if "infomec" in groups:
        discrete = settings.infomec.discrete_latents
        info_e, remarks = explicitness(factors, latents, discrete_latents=discrete)
        scores += [
            info_e,
            modularity(information, settings.infomec),
            compactness(information, settings.infomec),
        ]
        notes += [*_notes_on(factors, information), *remarks]
    if "gaps" in groups:
        scores += [modularity_gap(information), compactness_gap(information)]
    scores += _older_scores(factors, latents, groups, settings.seed)
    return FactorScores(tuple(scores), information, tuple(notes))


def null_scores(
    factors: Factors,
    latents: Float[np.ndarray, "n l"],
    settings: ScoreSettings,
    *,
    n_draws: int,
    on_progress: Callable[[int, int], None] | None = None,
) -> dict[str, list[float]]:
    """Score again and again with the rows of the factors shuffled, the factors kept together."""
    rng = np.random.default_rng([settings.seed, 1])
    n_rows = latents.shape[0]
    draws = ((rng.permutation(n_rows), slice(None)) for _ in range(n_draws))
    return _repeat(factors, latents, settings, draws, n_draws, on_progress)


def half_sample_scores(
    factors: Factors,
    latents: Float[np.ndarray, "n l"],
    settings: ScoreSettings,
    *,
    n_draws: int,
    on_progress: Callable[[int, int], None] | None = None,
) -> dict[str, list[float]]:
    """Score random halves of the rows; their spread is that of the score on all rows.

    A bootstrap would repeat rows, and repeated rows are each other's nearest neighbours: it
    ruins the mutual informations. Half of the rows drawn without replacement vary about as much
    around the whole as the whole does around the truth (the delete-half jackknife).
    """
    rng = np.random.default_rng([settings.seed, 2])
    n_rows = latents.shape[0]
    halves = (np.sort(rng.permutation(n_rows)[: n_rows // 2]) for _ in range(n_draws))
    draws = ((half, half) for half in halves)
    return _repeat(factors, latents, settings, draws, n_draws, on_progress)


def judge_scores(
    found: FactorScores,
    nulls: dict[str, list[float]],
    halves: dict[str, list[float]],
    *,
    level: float = 0.95,
) -> tuple[Judged, ...]:
    """Put every score beside its null (mean, one-sided p-value) and its interval.

    The interval is the score plus the quantiles of the half-samples around their own mean.
    """
    judged = []
    for score in found.scores:
        value, null, p_value, low, high = score.value, None, None, None, None
        chance = nulls.get(score.name, [])
        if chance:
            null = float(np.mean(chance))
        if chance and value is not None:
            p_value = (sum(draw >= value for draw in chance) + 1) / (len(chance) + 1)
        spread = halves.get(score.name, [])
        if len(spread) > 1 and value is not None:
            tail = (1 - level) / 2
            ends = np.quantile(np.array(spread) - np.mean(spread), [tail, 1 - tail])
            low = value + float(ends[0])
            # No score passes 1 but by the noise of the estimator.
            high = max(value, min(1.0, value + float(ends[1])))
        judged.append(Judged(score, null, p_value, low, high))
    return tuple(judged)


def _older_scores(
    factors: Factors, latents: np.ndarray, groups: tuple[str, ...], seed: int
) -> list[Score]:
    values = factors.values
    scores: list[Score] = []
    if "mcc" in groups:
        scores += [
            mean_correlation(values, latents, "pearson"),
            mean_correlation(values, latents, "spearman"),
        ]
    if "r2" in groups:
        scores += [linear_r2(values, latents), linear_r2_held_out(values, latents)]
    if "mig" in groups or "modularity" in groups:
        mi = binned_mi(factors, latents)
        if "mig" in groups:
            scores.append(mutual_information_gap(factors, mi))
        if "modularity" in groups:
            scores.append(squared_modularity(mi))
    if "sap" in groups:
        scores.append(separated_predictability(factors, latents))
    if "explicitness" in groups:
        scores.append(ranking_explicitness(factors, latents))
    if "dci" in groups:
        scores += dci(factors, latents, seed=seed)
    return scores


def _repeat(
    factors: Factors,
    latents: np.ndarray,
    settings: ScoreSettings,
    draws: Iterator[tuple[np.ndarray, slice | np.ndarray]],
    n_draws: int,
    on_progress: Callable[[int, int], None] | None,
) -> dict[str, list[float]]:
    values: dict[str, list[float]] = {}
    for done, (factor_rows, latent_rows) in enumerate(draws, start=1):
        drawn = factors.take(factor_rows)
        # A half can miss all classes of a rare factor but one; it then says nothing.
        varies = bool((drawn.codes.max(axis=0) > 0).all())
        found = score_factors(drawn, latents[latent_rows], settings) if varies else None
        for score in found.scores if found is not None else ():
            if score.value is not None:
                values.setdefault(score.name, []).append(score.value)
        if on_progress is not None:
            on_progress(done, n_draws)
    return values


def _notes_on(factors: Factors, information: MutualInformation) -> list[str]:
    latents, unknown = uninformative(information)
    notes = []
    if latents:
        notes.append(
            f"{len(latents)} active latent(s) have no estimated information about any factor "
            f"(latents {', '.join(map(str, latents))})"
        )
    if unknown:
        names = ", ".join(factors.names[j] for j in unknown)
        notes.append(f"no active latent has estimated information about {names}")
    return notes


def _check_latents(factors: Factors, latents: np.ndarray) -> None:
    if latents.shape[0] != factors.codes.shape[0]:
        raise InputError(
            f"{latents.shape[0]} rows of latents but {factors.codes.shape[0]} rows of factors; "
            "expected the same rows in the same order"
        )
    if latents.shape[1] < 1:
        raise InputError("there is no latent; expected at least one column")
    if not np.isfinite(latents).all():
        row, column = np.argwhere(~np.isfinite(latents))[0]
        raise InputError(
            f"latent {column} of row {row} is {latents[row, column]}; expected finite numbers"
        )
