"""One representation in all conditions: scores, nulls, intervals, and what to know of them."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from repalign.aliases import FloatArray, IntArray
from repalign.conditions.fit import fit_conditions
from repalign.core.conditions.fit import Condition, ConditionFitter
from repalign.core.conditions.kinds import condition_kind
from repalign.core.factors.encoding import Factors
from repalign.core.factors.infomec import MutualInformation, infomec_preset
from repalign.core.factors.judging import (
    Draws,
    JudgedScore,
    half_draws,
    judge_score,
    score_draws,
    shuffled_draws,
)
from repalign.core.factors.scores import FactorScores, ScoreSettings, score_factors, score_names
from repalign.core.factors.shuffles import FactorShuffle, plan_shuffle
from repalign.core.resampling.intervals import count_groups
from repalign.core.resampling.permutations import FEWEST_ARRANGEMENTS
from repalign.disentanglement.grouping import RowGroups
from repalign.disentanglement.results import (
    DisentangleResult,
    InformationMatrix,
    ScoreRecord,
)
from repalign.disentanglement.settings import FactorSettings
from repalign.engine.cache import cache_key, digest
from repalign.engine.engine import Engine
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
class ConditionTask:
    """A condition to be scored.

    Attributes:
        condition: Its transform of the latents.
        settings: What is computed; the seed is that of the repetition.
        names: Of the transformed latents.
        key: Names all that scores depend on.
    """

    condition: Condition
    settings: ScoreSettings
    names: tuple[str, ...]
    key: str


def score_source(
    source: EmbeddingSource,
    scored: ScoredRows,
    settings: FactorSettings,
    engine: Engine,
    machine: Machine,
) -> DisentangleResult:
    """Score one source in every condition and with every seed."""
    latents = source.rows.take(scored.rows).astype(np.float64)
    factors, groups = scored.factors, scored.groups
    shuffle = plan_shuffle(factors, groups.member, is_ordered=groups.is_ordered, seed=settings.seed)
    tasks, notes = _condition_tasks(source, latents, factors, settings, engine, machine)
    shared = (factors, latents)
    computed = engine.map(
        "scores",
        score_condition,
        tasks,
        machine,
        key=lambda task: cache_key("scores", task.key),
        shared=lambda task: shared,
    )
    scores = [
        FactorScores(values, MutualInformation(nmi, active), notes)
        for values, nmi, active, notes in computed
    ]
    names = score_names(settings.groups, repeatable=True)
    draws_of = {
        seed: _draws(shuffle, groups, settings, seed) if names else []
        for seed in dict.fromkeys(task.settings.seed for task in tasks)
    }
    draws = [(task, part) for task in tasks for part in draws_of[task.settings.seed]]
    values = engine.map(
        "shuffles and half-samples",
        score_part,
        draws,
        machine,
        key=lambda item: _key_of_draws(*item),
        shared=lambda item: shared,
    )
    records: list[ScoreRecord] = []
    matrices: list[InformationMatrix] = []
    warnings = [
        *scored.notes,
        *factors.notes,
        *_group_notes(shuffle, groups, settings),
        *notes,
    ]
    for task, of_condition in zip(tasks, scores, strict=True):
        condition = task.condition
        shuffled, halves = (
            np.concatenate(
                [np.empty((0, len(names)))]
                + [
                    part_values
                    for (drawn, part), part_values in zip(draws, values, strict=True)
                    if drawn is task and part.is_shuffled == is_shuffled
                ]
            )
            for is_shuffled in (True, False)
        )
        for score in of_condition.scores:
            column = [names.index(score.name)] if score.name in names else []
            judged = judge_score(
                score, shuffled[:, column].ravel(), halves[:, column].ravel(), shuffle,
                groups.member,
            )  # fmt: skip
            records.append(_record(source, scored, settings, shuffle, task, of_condition, judged))
        warnings += [
            f"{condition.name}: {text}" for text in (*condition.warnings, *of_condition.notes)
        ]
        if task.settings.seed == settings.seed:
            matrices.append(_matrix(source, task, factors, of_condition))
            warnings += _pruned_note(matrices[-1])
    return DisentangleResult(
        records=tuple(records),
        settings=asdict(settings),
        warnings=tuple(warnings),
        matrices=tuple(matrices),
        transforms={
            (source.name, source.view, task.condition.name): task.condition.transform
            for task in tasks
            if task.settings.seed == settings.seed
        },
    )


def score_condition(
    machine: Machine, task: ConditionTask, factors: Factors, latents: FloatArray
) -> tuple[Any, ...]:
    """Return the scores of one condition on all rows, the information behind them, and notes."""
    values = task.condition.transform.apply(latents)
    scores = score_factors(factors, values, task.settings, names=task.names)
    return scores.scores, scores.information.nmi, scores.information.active, scores.notes


def score_part(
    machine: Machine, item: tuple[ConditionTask, Draws], factors: Factors, latents: FloatArray
) -> FloatArray:
    """Return the scores of one condition on some shuffles or half-samples."""
    task, draws = item
    return score_draws(draws, factors, task.condition.transform.apply(latents), task.settings)


def _condition_tasks(
    source: EmbeddingSource,
    latents: FloatArray,
    factors: Factors,
    settings: FactorSettings,
    engine: Engine,
    machine: Machine,
) -> tuple[list[ConditionTask], tuple[str, ...]]:
    """Fit all conditions; return them as tasks, and notes on those that cannot be fitted."""
    ica = settings.transform.fitted_ica
    content = digest(latents.view(np.int64))
    conditions, notes = fit_conditions(
        [
            (name, seed)
            for seed in range(settings.seed, settings.seed + settings.n_seeds)
            for name in settings.transform.conditions
            # Raw and whitened latents are the same in every repetition.
            if seed == settings.seed or condition_kind(name).is_random
        ],
        ConditionFitter(latents, ica, machine.memory_bytes, machine.device),
        engine,
        machine,
        content,
    )
    preset = infomec_preset(settings.infomec, discrete_latents=settings.discrete_latents)
    origin = content, asdict(ica), settings.groups, asdict(preset), _factors_key(factors)
    tasks = []
    for (name, seed), condition in conditions.items():
        names = _latent_names(source, name, condition.transform.target_dim)
        key = cache_key("condition", origin, name, seed, names)
        tasks.append(
            ConditionTask(condition, ScoreSettings(settings.groups, preset, seed), names, key)
        )
    return tasks, notes


def _factors_key(factors: Factors) -> list[Any]:
    """Name the content of factors."""
    arrays = digest(factors.codes), digest(factors.values.view(np.int64))
    return [factors.names, factors.is_discrete, factors.n_bins, *arrays]


def _draws(
    shuffle: FactorShuffle, groups: RowGroups, settings: FactorSettings, seed: int
) -> list[Draws]:
    """Return the shuffles and half-samples of one repetition, some in each part."""
    shuffled = shuffled_draws(shuffle, settings.n_null, seed)
    return [*shuffled.tasks(), *half_draws(groups.member, settings.n_halves, seed).tasks()]


def _key_of_draws(task: ConditionTask, draws: Draws) -> str:
    rows = digest(np.concatenate([row for pair in draws.rows for row in pair]))
    return cache_key("draws", task.key, draws.is_shuffled, len(draws.rows), rows)


def _record(
    source: EmbeddingSource,
    scored: ScoredRows,
    settings: FactorSettings,
    shuffle: FactorShuffle,
    task: ConditionTask,
    scores: FactorScores,
    judged: JudgedScore,
) -> ScoreRecord:
    condition, n_null = task.condition, judged.n_null
    # Without whitening there is one solver only, whatever was asked for the others.
    solver = "sklearn" if condition.name == "ica" else settings.transform.ica.solver
    n_factors, n_latents = scores.information.nmi.shape
    return ScoreRecord(
        source=source.name,
        view=source.view,
        condition=condition.name,
        score=judged.score.name,
        value=judged.score.value,
        ci_low=judged.low,
        ci_high=judged.high,
        null=judged.null,
        p_value=judged.p_value,
        n_rows=scored.rows.size,
        n_latents=n_latents,
        n_active=int(scores.information.active.sum()),
        n_factors=n_factors,
        converged=condition.converged,
        iterations=condition.n_iter,
        infomec=settings.infomec,
        ica_solver=solver if condition.n_iter is not None else None,
        seed=task.settings.seed,
        reason=judged.score.reason,
        n_groups=shuffle.n_groups,
        n_null=n_null,
        null_scheme=shuffle.scheme if n_null else None,
        null_rows=shuffle.kept.size if n_null else None,
        smallest_p=shuffle.smallest_p(n_null) if n_null else None,
        conventions=recorded_values(settings),
    )


def _group_notes(shuffle: FactorShuffle, groups: RowGroups, settings: FactorSettings) -> list[str]:
    """Say what groups do to nulls and intervals, where there are any."""
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
    refusal = count_groups(groups.member).refusal
    if settings.n_halves and refusal is not None:
        notes.append(refusal)
    return notes


def _matrix(
    source: EmbeddingSource, task: ConditionTask, factors: Factors, scores: FactorScores
) -> InformationMatrix:
    information = scores.information
    return InformationMatrix(
        source.name,
        source.view,
        task.condition.name,
        factors.names,
        task.names,
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
