"""Every score next to what chance scores, how often chance does as well, and an interval."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int

from repalign.core.factors.encoding import Factors
from repalign.core.factors.scores import ScoreInputs, ScoreSettings, score_names
from repalign.core.factors.shuffles import FactorShuffle
from repalign.core.resampling.intervals import ANYWHERE, count_groups, delete_half
from repalign.core.resampling.nulls import Null
from repalign.core.score import Score

# Their bins follow the range of the values, which half-samples do not share: intervals from these
# hold in .61 to .85 of samples (t3 rows, clusters) instead of .95.
WITHOUT_INTERVAL = frozenset({"modularity"})
# Draws of a task: few are computed twice after a stop, and few files are kept.
FEWEST_IN_TASK, MOST_TASKS = 4, 32


@dataclass(frozen=True, eq=False)
class Draws:
    """Rows on which scores are computed again, draw by draw.

    Attributes:
        rows: Rows of the factors, and of the latents next to them.
        is_shuffled: Latents stand next to the factors of other rows.
    """

    rows: tuple[tuple[Int[np.ndarray, " _"], Int[np.ndarray, " _"]], ...]
    is_shuffled: bool

    def tasks(self) -> "list[Draws]":
        """Return the same draws, some in each task."""
        size = max(FEWEST_IN_TASK, -(-len(self.rows) // MOST_TASKS))
        starts = range(0, len(self.rows), size)
        return [replace(self, rows=self.rows[start : start + size]) for start in starts]


@dataclass(frozen=True)
class JudgedScore:
    """A score with what pure chance scores, how often chance does as well, and an interval."""

    score: Score
    null: float | None = None
    n_null: int = 0
    p_value: float | None = None
    low: float | None = None
    high: float | None = None


def shuffled_draws(shuffle: FactorShuffle, n_draws: int, seed: int) -> Draws:
    """Return shuffles of the factors; the first draw is the order as it is.

    A p-value holds only if what was observed is scored on the rows that are shuffled.
    """
    rng = np.random.default_rng([seed, 1])
    rows = shuffle.kept
    orders = [rows, *shuffle.draws(n_draws, rng)] if n_draws else []
    return Draws(tuple((order, rows) for order in orders), is_shuffled=True)


def half_draws(groups: Int[np.ndarray, " n"], n_draws: int, seed: int) -> Draws:
    """Return random halves of the groups of rows, none of too few groups for an interval.

    A bootstrap would repeat rows, and repeated rows are each other's nearest neighbours: it
    ruins the mutual informations. Rows of one group are drawn together.
    """
    _, member = np.unique(groups, return_inverse=True)
    n_groups = int(member.max()) + 1
    if count_groups(groups).refusal is not None:
        n_draws = 0
    rng = np.random.default_rng([seed, 2])
    halves = []
    for _ in range(n_draws):
        is_drawn = np.zeros(n_groups, dtype=np.bool_)
        is_drawn[rng.permutation(n_groups)[: n_groups // 2]] = True
        halves.append(np.flatnonzero(is_drawn[member]))
    return Draws(tuple((half, half) for half in halves), is_shuffled=False)


def score_draws(
    draws: Draws, factors: Factors, latents: Float[np.ndarray, "n l"], settings: ScoreSettings
) -> Float[np.ndarray, "draws scores"]:
    """Return the repeatable scores of every draw, NaN where a score is undefined."""
    names = score_names(settings.groups, repeatable=True)
    values = np.full((len(draws.rows), len(names)), np.nan)
    for line, (factor_rows, latent_rows) in zip(values, draws.rows, strict=True):
        drawn = factors.deal(factor_rows) if draws.is_shuffled else factors.take(factor_rows)
        # A half can miss all classes of a rare factor but one; it then says nothing.
        if (drawn.codes.max(axis=0) > 0).all():
            inputs = ScoreInputs(drawn, latents[latent_rows], settings.infomec, settings.seed)
            scores = inputs.scores(names)
            line[:] = [np.nan if score.value is None else score.value for score in scores]
    return values


def judge_score(
    score: Score,
    shuffled: Float[np.ndarray, " shuffles"],
    halves: Float[np.ndarray, " halves"],
    shuffle: FactorShuffle,
    groups: Int[np.ndarray, " n"],
) -> JudgedScore:
    """Put a score next to its null (mean, one-sided p-value) and its interval.

    The interval is Student's, from the deviation of the half-samples (delete-half jackknife,
    Shao and Wu 1989).

    Args:
        score: On all rows.
        shuffled: Of the shuffled draws, the first as observed; may be empty.
        halves: On half-samples; may be empty.
        shuffle: How the factors are shuffled.
        groups: Group of every row.
    """
    judged = JudgedScore(score)
    observed, drawn = shuffled[:1], shuffled[1:][np.isfinite(shuffled[1:])]
    if drawn.size:
        judged = replace(judged, null=float(np.mean(drawn)), n_null=drawn.size)
        if np.isfinite(observed[0]) and shuffle.is_sufficient:
            # a null counts what is as low, and scores are better the higher they are
            null = Null(-observed, -drawn[:, None], shuffle.orders)
            judged = replace(judged, p_value=float(null.p_values()[0]))
    defined = halves[np.isfinite(halves)]
    if defined.size > 1 and score.value is not None and score.name not in WITHOUT_INTERVAL:
        replicates = delete_half(np.array([score.value]), defined[:, None], groups)
        interval = replicates.interval(lambda values: values[..., 0], within=ANYWHERE)
        # No score passes 1 but by the noise of the estimator.
        high = max(score.value, min(1.0, interval.high))
        judged = replace(judged, low=interval.low, high=high)
    return judged
