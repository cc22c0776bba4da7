"""One representation in all conditions: scores, nulls, intervals, and what to know of them."""

from dataclasses import dataclass, field

import numpy as np

from repalign.aliases import IntArray
from repalign.conditions.fit import condition_settings, fit_conditions
from repalign.core.affine import AffineMap
from repalign.core.conditions.fit import Condition
from repalign.core.conditions.kinds import condition_kind
from repalign.core.factors.encoding import Factors
from repalign.core.factors.infomec import infomec_preset
from repalign.core.factors.judging import (
    JudgedScore,
    ShuffledScores,
    half_sample_scores,
    judge_scores,
    shuffled_scores,
)
from repalign.core.factors.scores import FactorScores, ScoreSettings, score_factors
from repalign.core.factors.shuffles import FactorShuffle, plan_shuffle
from repalign.core.resampling.intervals import GroupCount
from repalign.core.resampling.permutations import FEWEST_ARRANGEMENTS
from repalign.core.rows import OnProgress
from repalign.disentanglement.grouping import RowGroups
from repalign.disentanglement.results import InformationMatrix, ScoreRecord
from repalign.disentanglement.settings import FactorSettings
from repalign.engine.machine import Machine
from repalign.options import recorded_values
from repalign.store.source import EmbeddingSource

SHOWN = 20


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """The rows of a source that are scored, their factors and groups, and notes on the choice."""

    rows: IntArray
    factors: Factors
    groups: RowGroups
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class SourceScores:
    """What came out for one source."""

    records: tuple[ScoreRecord, ...]
    warnings: tuple[str, ...]
    matrices: tuple[InformationMatrix, ...]
    transforms: dict[tuple[str, str, str], AffineMap]


@dataclass
class Steps:
    """Counts rounds of scoring over all conditions."""

    total: int
    on_progress: OnProgress
    done: int = field(default=0)

    def one(self, _done: int = 0, _total: int = 0) -> None:
        """Count one more round."""
        self.done += 1
        self.on_progress(self.done, self.total)


def score_source(
    source: EmbeddingSource,
    scored: ScoredRows,
    settings: FactorSettings,
    machine: Machine,
    steps: Steps,
) -> SourceScores:
    """Score one source in every condition and with every seed."""
    latents = source.rows.take(scored.rows).astype(np.float64)
    groups = scored.groups
    shuffle = plan_shuffle(
        scored.factors, groups.member, is_ordered=groups.is_ordered, seed=settings.seed
    )
    judge = _Judge(source, scored, settings, shuffle, steps)
    records: list[ScoreRecord] = []
    matrices: list[InformationMatrix] = []
    transforms: dict[tuple[str, str, str], AffineMap] = {}
    warnings = [
        *scored.notes,
        *scored.factors.notes,
        *_group_notes(shuffle, scored.groups.worth, settings),
    ]
    for seed in range(settings.seed, settings.seed + settings.n_seeds):
        is_first = seed == settings.seed
        names = [
            name
            for name in settings.transform.conditions
            # Raw and whitened latents are the same in every repetition.
            if is_first or condition_kind(name).is_random
        ]
        how = condition_settings(settings.transform, seed)
        fitted = fit_conditions(names, latents, how, machine)
        warnings += fitted.notes
        for name, condition in fitted.conditions.items():
            values = condition.transform.apply(latents)
            found, told = judge.records(condition, values, seed)
            records += told
            warnings += [f"{name}: {text}" for text in (*condition.warnings, *found.notes)]
            if is_first:
                transforms[source.name, source.view, name] = condition.transform
                matrices.append(_matrix(source, name, found))
                warnings += _pruned_note(matrices[-1])
    return SourceScores(tuple(records), tuple(warnings), tuple(matrices), transforms)


@dataclass(frozen=True, eq=False)
class _Judge:
    """Scores latents in one condition after another against the same factors."""

    source: EmbeddingSource
    scored: ScoredRows
    settings: FactorSettings
    shuffle: FactorShuffle
    steps: Steps

    def records(
        self, condition: Condition, values: np.ndarray, seed: int
    ) -> tuple[FactorScores, list[ScoreRecord]]:
        """Return the scores of a condition, and their records."""
        settings = self.settings
        preset = infomec_preset(settings.infomec, discrete_latents=settings.discrete_latents)
        how = ScoreSettings(settings.groups, preset, seed)
        names = _latent_names(self.source, condition.name, values.shape[1])
        found = score_factors(self.scored.factors, values, how, names=names)
        self.steps.one()
        nulls = shuffled_scores(
            found, how, self.shuffle, n_draws=settings.n_null, on_progress=self.steps.one
        )
        halves = half_sample_scores(
            found,
            how,
            n_draws=settings.n_halves,
            groups=self.scored.groups.member,
            on_progress=self.steps.one,
        )
        judged = judge_scores(found, nulls, halves)
        return found, [self._record(one, condition, found, nulls, seed) for one in judged]

    def _record(
        self,
        one: JudgedScore,
        condition: Condition,
        found: FactorScores,
        nulls: ShuffledScores,
        seed: int,
    ) -> ScoreRecord:
        settings, shuffle = self.settings, self.shuffle
        n_null = len(nulls.draws.get(one.score.name, ()))
        # Without whitening there is one solver only, whatever was asked for the others.
        solver = "sklearn" if condition.name == "ica" else settings.transform.ica.solver
        return ScoreRecord(
            source=self.source.name,
            view=self.source.view,
            condition=condition.name,
            score=one.score.name,
            value=one.score.value,
            ci_low=one.low,
            ci_high=one.high,
            null=one.null,
            p_value=one.p_value,
            n_rows=len(found.evidence.latents),
            n_latents=found.evidence.latents.shape[1],
            n_active=int(found.information.active.sum()),
            n_factors=found.information.nmi.shape[0],
            converged=condition.converged,
            iterations=condition.n_iter,
            infomec=settings.infomec,
            ica_solver=solver if condition.n_iter is not None else None,
            seed=seed,
            reason=one.score.reason,
            n_groups=shuffle.n_groups,
            n_null=n_null,
            null_scheme=shuffle.scheme if n_null else None,
            null_rows=shuffle.kept.size if n_null else None,
            smallest_p=shuffle.smallest_p(n_null) if n_null else None,
            conventions=recorded_values(settings),
        )


def _group_notes(shuffle: FactorShuffle, worth: float, settings: FactorSettings) -> list[str]:
    """Say what groups do to nulls and intervals, where there are any.

    ``worth``: as many groups of one size as they are worth.
    """
    notes = []
    n_groups, n_rows = shuffle.n_groups, shuffle.n_rows
    if settings.n_null and shuffle.scheme == "runs of groups":
        notes.append(
            f"factors vary inside the {n_groups} groups: whole groups of about one size change "
            f"places, {shuffle.n_moving} of them, on {shuffle.kept.size} of {n_rows} rows; what "
            "comes with the place in a group stays in the null"
        )
    if settings.n_null and not shuffle.is_sufficient:
        notes.append(
            f"no p-value: the factors of {n_groups} groups can be dealt in "
            f"{shuffle.n_arrangements:.0f} ways only, expected at least {FEWEST_ARRANGEMENTS}"
        )
    refusal = GroupCount(n_groups, worth).refusal
    if settings.n_halves and refusal is not None:
        notes.append(refusal)
    return notes


def _matrix(source: EmbeddingSource, condition: str, found: FactorScores) -> InformationMatrix:
    information = found.information
    names = _latent_names(source, condition, information.nmi.shape[1])
    return InformationMatrix(
        source.name,
        source.view,
        condition,
        found.evidence.factors.names,
        names,
        information.nmi,
        tuple(information.active.tolist()),
    )


def _latent_names(source: EmbeddingSource, condition: str, width: int) -> tuple[str, ...]:
    """Return the names of the file's columns; other conditions than raw mix them."""
    if condition == "raw" and source.columns is not None:
        return source.columns
    return tuple(map(str, range(width)))


def _pruned_note(matrix: InformationMatrix) -> list[str]:
    if not matrix.pruned:
        return []
    names = [matrix.latents[number] for number in matrix.pruned]
    shown = ", ".join(names[:SHOWN]) + (", …" if len(names) > SHOWN else "")
    return [
        f"{matrix.condition}: {len(names)} of {len(matrix.active)} latents are inactive "
        f"and pruned from InfoM and InfoC (latents {shown})"
    ]
