"""Does a label survive a change of batch: the deconfounding table of the paper (section 4.4)."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from importlib.metadata import distributions, version
from pathlib import Path

from repalign.aliases import IntArray
from repalign.core.batches.judge import FoldMeasure
from repalign.core.conditions import Condition, check_condition_names
from repalign.core.score import Score
from repalign.exceptions import InputError
from repalign.store.sources.in_memory import Embeddings, as_source
from repalign.store.sources.source import EmbeddingSource
from repalign.workflows.columns import Columns, align_columns, open_columns
from repalign.workflows.conditions import condition_settings, fit_conditions
from repalign.workflows.deconfound.cache import FoldCache, key_of
from repalign.workflows.deconfound.records import Answer, batch_records
from repalign.workflows.deconfound.tasks import label_tasks
from repalign.workflows.deconfound.units import FoldInputs, FoldUnit, list_units, run_unit, unit_key
from repalign.workflows.disentangle.results import DisentangleResult
from repalign.workflows.disentangle.settings import BatchSettings


def deconfound(
    embeddings: Embeddings,
    columns: Columns,
    *,
    labels: Sequence[str],
    batch: str,
    settings: BatchSettings | None = None,
    resume: str | Path | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> DisentangleResult:
    """Judge by held-out batches how well labels are told from each condition of a representation.

    Args:
        embeddings: one set: path, ``path::view``, array, ….
        columns: a file, or a mapping from names to values, with the labels and the batches.
        labels: names of label columns (see ``label_tasks`` for what they may hold).
        batch: name of the column of batches: plates, sites, donors.
        settings: conventions; ``BatchSettings()`` by default.
        resume: file in which finished folds are kept; a rerun computes the missing ones only.
        on_progress: called with (done, total) folds.

    Raises:
        InputError: an unknown name, or a label that needs a control.
        RowMismatchError: rows without label or batch.
        MissingExtraError: LightGBM is not installed.
    """
    settings = settings or BatchSettings()
    names = check_condition_names(settings.transform.conditions)
    source = as_source(embeddings, name="embeddings")
    if batch in labels:
        raise InputError(f"the column {batch} is asked for as label and as batch; choose two")
    aligned = align_columns(
        source,
        open_columns(columns),
        (*labels, batch),
        policy=settings.transform.on_mismatch,
    )
    tasks = label_tasks(aligned.columns, labels, settings.control)
    raw = source.rows.take(aligned.rows)
    how = condition_settings(settings.transform, settings.transform.seed)
    fitted, lost = fit_conditions(names, raw, how)
    inputs = FoldInputs(
        raw=raw,
        transformed={name: one.transform.apply(raw) for name, one in fitted.items()},
        batches=aligned.columns[batch],
        settings=settings,
        condition_settings=how,
    )
    units = list(
        list_units(tasks, tuple(one.name for one in fitted.values()), inputs.batches, settings)
    )
    cache = FoldCache(resume)
    prefix = _origin(source, aligned.rows) if resume is not None else ""
    results = _run_all(units, inputs, cache, prefix, on_progress)
    answers = [Answer(unit, measures) for unit, measures in zip(units, results, strict=True)]
    return DisentangleResult(
        records=batch_records(source, answers, inputs, fitted),
        settings=asdict(settings) | {"labels": list(labels), "batch": batch},
        warnings=(*aligned.notes, *lost, *_warnings(fitted, answers)),
        transforms={
            (source.name, source.view, name): one.transform for name, one in fitted.items()
        },
    )


def _origin(source: EmbeddingSource, rows: IntArray) -> str:
    """Name the values that the folds are made of, and the versions that make them."""
    trees = next((one.version for one in distributions(name="lightgbm")), "")
    return key_of(
        {
            "embeddings": source.fingerprint,
            "rows": rows.tolist(),
            "repalign": version("repalign"),
            "lightgbm": trees,
        }
    )


def _run_all(
    units: list[FoldUnit],
    inputs: FoldInputs,
    cache: FoldCache,
    prefix: str,
    on_progress: Callable[[int, int], None] | None,
) -> list[tuple[FoldMeasure, ...]]:
    """Compute units side by side; LightGBM lets other threads run while it works."""

    def one(unit: FoldUnit) -> tuple[FoldMeasure, ...]:
        key = key_of({"embeddings": prefix, **unit_key(unit, inputs)}) if prefix else ""
        kept = cache.get(key) if prefix else None
        if kept is not None:
            return tuple(
                FoldMeasure(Score(name, value, reason), share)
                for name, value, reason, share in kept["measures"]
            )
        measures = run_unit(unit, inputs)
        if prefix:
            rows = [[m.score.name, m.score.value, m.score.reason, m.top_share] for m in measures]
            cache.put(key, {"measures": rows})
        return measures

    results = []
    with ThreadPoolExecutor(max_workers=inputs.settings.workers) as pool:
        for done, measures in enumerate(pool.map(one, units), start=1):
            results.append(measures)
            if on_progress is not None:
                on_progress(done, len(units))
    return results


def _warnings(fitted: dict[str, Condition], answers: list[Answer]) -> tuple[str, ...]:
    notes = [f"{name}: {text}" for name, one in fitted.items() for text in one.warnings]
    lost: dict[str, int] = {}
    for answer in answers:
        if answer.unit.kind == "fold" and answer.unit.fold.reason:
            text = f"{answer.unit.task.title}, {answer.unit.protocol}, {answer.unit.fold.name}"
            lost[f"{text}: {answer.unit.fold.reason}"] = 1
    notes += [f"not scored: {text}" for text in lost]
    if any(one.converged is False for one in fitted.values()):
        notes.append("an ICA did not converge: its row of the table may be far from the optimum's")
    return tuple(notes)
