"""Do latents recover known factors: every score in every condition, with null and interval."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace

import numpy as np

from repalign.core.conditions import Condition, check_condition_names
from repalign.core.factors.encoding import Factors, encode_factors
from repalign.core.factors.infomec import infomec_preset
from repalign.core.factors.judging import (
    JudgedScore,
    half_sample_scores,
    judge_scores,
    shuffled_scores,
)
from repalign.core.factors.kinds import DEFAULT_GROUPS
from repalign.core.factors.scores import (
    FactorScores,
    ScoreSettings,
    check_groups,
    score_factors,
)
from repalign.core.maps.affine import AffineMap
from repalign.exceptions import InputError
from repalign.store.sources.in_memory import Embeddings, as_source
from repalign.store.sources.source import EmbeddingSource
from repalign.workflows.columns import Columns, align_columns, open_columns
from repalign.workflows.conditions import condition_settings, fit_conditions
from repalign.workflows.disentangle.results import DisentangleResult, InformationMatrix, ScoreRecord
from repalign.workflows.disentangle.settings import FactorSettings

OnProgress = Callable[[int, int], None]

# Raw and whitened latents are the same in every repetition.
SEEDED = {"pca+ica", "pca+rotation", "ica"}


def disentangle(
    embeddings: "Embeddings | Sequence[EmbeddingSource]",
    factors: Columns,
    *,
    settings: FactorSettings | None = None,
    on_progress: OnProgress | None = None,
) -> DisentangleResult:
    """Score representations against the ground-truth factors of their rows.

    Args:
        embeddings: one set (path, ``path::view``, array, …), or several open sources that are
            scored side by side.
        factors: a file, ``store.h5::view``, or a mapping from names to values.
        settings: conventions; ``FactorSettings()`` by default.
        on_progress: called with (done, total) rounds of scoring.

    Raises:
        InputError: nothing that can be scored, or an unknown name.
        RowMismatchError: rows without factors.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> shape, hue = rng.integers(0, 3, 600), rng.integers(0, 4, 600)
        >>> latents = np.column_stack([hue, shape]) + 0.05 * rng.normal(size=(600, 2))
        >>> result = disentangle(latents, {"shape": shape, "hue": hue})
        >>> frame = result.to_frame().set_index(["condition", "score"])
        >>> bool(frame.value["raw", "InfoM"] > 0.95)
        True
    """
    settings = settings or FactorSettings()
    names = check_condition_names(settings.transform.conditions)
    if settings.discrete_latents and names != ("raw",):
        raise InputError(
            f"discrete latents were asked for in the conditions {', '.join(names)}; codes cannot "
            "be whitened: choose the condition raw alone"
        )
    table = open_columns(factors)
    sources = _sources(embeddings)
    runs = len(sources) * sum(settings.n_seeds if name in SEEDED else 1 for name in names)
    steps = _Steps(runs * (1 + settings.n_null + settings.n_halves), on_progress)
    results = []
    for source in sources:
        aligned = align_columns(
            source, table, settings.factors or None, policy=settings.transform.on_mismatch
        )
        rows, notes = _sampled(aligned.rows, settings)
        chosen = np.searchsorted(aligned.rows, rows)
        encoded = encode_factors(
            {name: values[chosen] for name, values in aligned.columns.items()},
            kinds=settings.kinds,
            n_bins=settings.n_bins,
        )
        latents = source.rows.take(rows).astype(np.float64)
        found = _score_source(source, latents, encoded, settings, steps)
        results.append(replace(found, warnings=(*aligned.notes, *notes, *found.warnings)))
    return DisentangleResult(
        records=tuple(record for found in results for record in found.records),  # type: ignore[arg-type]
        settings=asdict(settings),
        warnings=tuple(dict.fromkeys(text for found in results for text in found.warnings)),
        matrices=tuple(matrix for found in results for matrix in found.matrices),
        transforms={key: m for found in results for key, m in (found.transforms or {}).items()},
    )


class _Steps:
    """Counts rounds of scoring over all conditions."""

    def __init__(self, total: int, on_progress: OnProgress | None) -> None:
        self.done, self.total, self.on_progress = 0, total, on_progress

    def one(self, _done: int = 0, _total: int = 0) -> None:
        """Count one more round."""
        self.done += 1
        if self.on_progress is not None:
            self.on_progress(self.done, self.total)


def _sources(embeddings: "Embeddings | Sequence[EmbeddingSource]") -> list[EmbeddingSource]:
    if isinstance(embeddings, list | tuple) and all(
        isinstance(one, EmbeddingSource) for one in embeddings
    ):
        if not embeddings:
            raise InputError("no embeddings were given; expected at least one set")
        return list(embeddings)
    return [as_source(embeddings, name="latents")]


def _sampled(rows: np.ndarray, settings: FactorSettings) -> tuple[np.ndarray, tuple[str, ...]]:
    if not settings.max_rows or rows.size <= settings.max_rows:
        return rows, ()
    rng = np.random.default_rng(settings.transform.seed)
    chosen = np.sort(rng.choice(rows, settings.max_rows, replace=False))
    note = f"{settings.max_rows} of {rows.size} rows were drawn and scored (--max-rows 0 for all)"
    return chosen, (note,)


def _score_source(
    source: EmbeddingSource,
    latents: np.ndarray,
    factors: Factors,
    settings: FactorSettings,
    steps: _Steps,
) -> DisentangleResult:
    records: list[ScoreRecord] = []
    matrices: list[InformationMatrix] = []
    transforms: dict[tuple[str, str, str], AffineMap] = {}
    warnings = list(factors.notes)
    base = settings.transform.seed
    asked = check_condition_names(settings.transform.conditions)
    for seed in range(base, base + settings.n_seeds):
        names = asked if seed == base else tuple(name for name in asked if name in SEEDED)
        fitted, lost = fit_conditions(names, latents, condition_settings(settings.transform, seed))
        warnings += lost
        for name, condition in fitted.items():
            warnings += [f"{name}: {text}" for text in condition.warnings]
            values = condition.transform.apply(latents)
            found, judged = _judged(values, factors, settings, seed, steps)
            warnings += [f"{name}: {text}" for text in found.notes]
            records += _records(source, condition, values, found, judged, settings, seed)
            if seed == base:
                transforms[source.name, source.view, name] = condition.transform
                matrices.append(_matrix(source, name, factors, found))
                warnings += _pruned_note(matrices[-1])
    return DisentangleResult(tuple(records), {}, tuple(warnings), tuple(matrices), transforms)


def _judged(
    values: np.ndarray, factors: Factors, settings: FactorSettings, seed: int, steps: _Steps
) -> tuple[FactorScores, tuple[JudgedScore, ...]]:
    score_settings = ScoreSettings(
        groups=check_groups(settings.scores or DEFAULT_GROUPS),
        infomec=infomec_preset(
            settings.infomec,  # type: ignore[arg-type]
            discrete_latents=settings.discrete_latents,
        ),
        seed=seed,
    )
    found = score_factors(factors, values, score_settings)
    steps.one()
    nulls = shuffled_scores(found, score_settings, n_draws=settings.n_null, on_progress=steps.one)
    halves = half_sample_scores(
        found, score_settings, n_draws=settings.n_halves, on_progress=steps.one
    )
    return found, judge_scores(found, nulls, halves)


def _records(
    source: EmbeddingSource,
    condition: Condition,
    values: np.ndarray,
    found: FactorScores,
    judged: tuple[JudgedScore, ...],
    settings: FactorSettings,
    seed: int,
) -> list[ScoreRecord]:
    is_ica = condition.n_iter is not None
    # Without whitening there is one solver only, whatever was asked for the other condition.
    solver = "sklearn" if condition.name == "ica" else settings.transform.ica_solver
    return [
        ScoreRecord(
            source=source.name,
            view=source.view,
            condition=condition.name,
            score=one.score.name,
            value=one.score.value,
            ci_low=one.low,
            ci_high=one.high,
            null=one.null,
            p_value=one.p_value,
            n_rows=values.shape[0],
            n_latents=values.shape[1],
            n_active=int(found.information.active.sum()),
            n_factors=found.information.nmi.shape[0],
            converged=condition.converged,
            iterations=condition.n_iter,
            infomec=settings.infomec,
            ica_solver=solver if is_ica else None,
            seed=seed,
            reason=one.score.reason,
        )
        for one in judged
    ]


def _matrix(
    source: EmbeddingSource, condition: str, factors: Factors, found: FactorScores
) -> InformationMatrix:
    information = found.information
    active = tuple(information.active.tolist())
    return InformationMatrix(
        source.name, source.view, condition, factors.names, information.nmi, active
    )


def _pruned_note(matrix: InformationMatrix) -> list[str]:
    if not matrix.pruned:
        return []
    names = ", ".join(map(str, matrix.pruned[:20])) + (", …" if len(matrix.pruned) > 20 else "")
    return [
        f"{matrix.condition}: {len(matrix.pruned)} of {len(matrix.active)} latents are inactive "
        f"and pruned from InfoM and InfoC (latents {names})"
    ]
