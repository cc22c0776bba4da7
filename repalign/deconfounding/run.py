"""Does a label survive a change of batch: the deconfounding table of the paper (section 4.4)."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import distributions
from typing import Unpack

from repalign.arguments import listed
from repalign.conditions.columns import (
    Columns,
    align_columns,
    check_features,
    feature_notes,
    open_columns,
)
from repalign.conditions.fit import fit_conditions
from repalign.conditions.keywords import DECONFOUND, BatchKeywords
from repalign.core.conditions.fit import Condition, ConditionFitter
from repalign.deconfounding.records import batch_records
from repalign.deconfounding.results import DeconfoundResult
from repalign.deconfounding.settings import BatchSettings
from repalign.deconfounding.tasks import label_tasks
from repalign.deconfounding.units import (
    FoldInputs,
    FoldUnit,
    keep_transformed,
    list_units,
    run_unit,
    unit_key,
)
from repalign.engine.cache import cache_key, digest
from repalign.engine.engine import Engine
from repalign.engine.machine import Machine
from repalign.exceptions import InputError
from repalign.store.open import Embeddings, as_source


@DECONFOUND.speaks_python
def deconfound(
    embeddings: Embeddings,
    columns: Columns,
    *,
    labels: Sequence[str],
    batch: str,
    settings: BatchSettings | None = None,
    machine: Machine | None = None,
    executor: Engine | None = None,
    **keywords: Unpack[BatchKeywords],
) -> DeconfoundResult:
    """Judge by held-out batches how well labels are told from each condition of a representation.

    The options of the command line are keywords of the same names, as for ``disentangle``.

    Args:
        embeddings: one set: path, ``path::view``, array, ….
        columns: a file, or a mapping from names to values, with the labels and the batches. It
            may be that of the embeddings: columns named here are never features.
        labels: names of label columns (see ``label_tasks`` for what they may hold).
        batch: name of the column of batches: plates, sites, donors.
        settings: all conventions as one object, for programs; instead of keywords.
        machine: device, cap on working memory, and the callback of progress.
        executor: what computes the folds: this process by default, or a ``ThreadPool``; with a
            cache a rerun computes what is missing only.
        keywords: options, as ``repalign deconfound --help`` explains them.

    Raises:
        InputError: an unknown name or keyword, a value that is not allowed, a label that needs a
            control, a feature that determines a label or the batch, or more rows than fit into
            the memory.
        RowMismatchError: rows without label or batch.

    Example:
        >>> import numpy as np, repalign
        >>> rng = np.random.default_rng(0)
        >>> plate, treated = np.repeat(np.arange(4), 50), np.tile([0, 1], 100)
        >>> cells = rng.normal(size=(200, 3)) + plate[:, None] + 2 * treated[:, None]
        >>> table = {"plate": plate, "treated": treated}
        >>> result = repalign.deconfound(
        ...     cells, table, labels=["treated"], batch="plate", conditions="raw", folds=2
        ... )
        >>> auroc = result.to_frame().set_index("measure").value["AUROC"]
        >>> bool(auroc > 0.8)
        True
    """
    settings = DECONFOUND.settings_of(settings, keywords)
    machine, engine = machine or Machine(), executor or Engine()
    labels = listed("labels", labels, "names of columns", str)
    not_features = (*labels, batch)
    source = as_source(embeddings, name="embeddings", leave_out=not_features)
    table = open_columns(columns)
    is_own = embeddings is columns
    if batch in labels:
        raise InputError(f"the column {batch} is asked for as label and as batch; choose two")
    aligned = align_columns(source, table, not_features, policy=settings.on_mismatch, is_own=is_own)
    tasks = label_tasks(aligned.columns, labels, settings.control)
    raw = source.rows.take(aligned.rows)
    check_features(source, raw, aligned.columns, aligned.columns[batch])
    features = feature_notes(source, table, not_features, is_own=is_own)
    origin = source.fingerprint, digest(aligned.rows)
    fitter = ConditionFitter(
        raw, settings.transform.fitted_ica, machine.memory_bytes, machine.device
    )
    wanted = [(name, settings.seed) for name in settings.transform.conditions]
    fits, notes = fit_conditions(wanted, fitter, Engine(engine.cache), machine, origin)
    fitted = {name: condition for (name, _), condition in fits.items()}
    batches = aligned.columns[batch]
    inputs = FoldInputs(raw, fitted, batches, settings, fitter.ica, engine.workers)
    inputs = keep_transformed(inputs, machine.memory_bytes)
    units = list(list_units(tasks, tuple(fitted), batches, settings))

    def key_of_fold(unit: FoldUnit) -> str:
        return cache_key("fold", origin, _trees_version(), unit_key(unit, inputs))

    results = engine.map(
        "folds",
        run_unit,
        units,
        machine,
        key=None if engine.cache is None else key_of_fold,
        shared=lambda unit: (inputs,),
    )
    outcomes = list(zip(units, results, strict=True))
    return DeconfoundResult(
        records=batch_records(source, outcomes, inputs),
        settings=asdict(settings) | {"labels": list(labels), "batch": batch},
        warnings=(*features, *aligned.notes, *notes, *_warnings(fitted, units)),
        transforms={
            (source.name, source.view, name): one.transform for name, one in fitted.items()
        },
    )


def _trees_version() -> str:
    return next((package.version for package in distributions(name="lightgbm")), "")


def _warnings(fitted: Mapping[str, Condition], units: list[FoldUnit]) -> tuple[str, ...]:
    notes = [f"{name}: {text}" for name, one in fitted.items() for text in one.warnings]
    lost: dict[str, int] = {}
    for unit in units:
        if unit.kind == "fold" and unit.fold.reason:
            text = f"{unit.task.title}, {unit.protocol}, {unit.fold.name}"
            lost[f"{text}: {unit.fold.reason}"] = 1
    notes += [f"not scored: {text}" for text in lost]
    if any(one.converged is False for one in fitted.values()):
        notes.append("an ICA did not converge: its row of the table may be far from the optimum's")
    return tuple(notes)
