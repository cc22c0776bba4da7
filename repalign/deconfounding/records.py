"""From folds to the records of the deconfounding table."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from repalign.core.batches.judge import FoldMeasure
from repalign.core.batches.sparsity import mean_and_sd
from repalign.core.conditions.fit import Condition
from repalign.deconfounding.results import BatchRecord
from repalign.deconfounding.units import FoldInputs, FoldUnit
from repalign.options import recorded_values
from repalign.store.source import EmbeddingSource

MEAN_LABEL = "(mean over labels)"


Outcome = tuple[FoldUnit, tuple[FoldMeasure, ...]]
"""A unit and what came out of it."""


def batch_records(
    source: EmbeddingSource,
    outcomes: Sequence[Outcome],
    inputs: FoldInputs,
) -> tuple[BatchRecord, ...]:
    """Average over folds; with several labels, also over the labels."""
    groups: dict[tuple[str, str, str, str], list[Outcome]] = {}
    for outcome in outcomes:
        unit = outcome[0]
        key = (unit.kind, unit.task.title, unit.condition, unit.protocol)
        groups.setdefault(key, []).append(outcome)
    records: list[BatchRecord] = []
    for (kind, _, condition, _), members in groups.items():
        found = _group_records(source, members, inputs, inputs.fitted[condition])
        if kind == "permuted":
            found = [replace(one, measure=f"{one.measure}-permuted") for one in found]
        records += found
    records = _with_null(records)
    return (*records, *_means(records))


def _group_records(
    source: EmbeddingSource, members: list[Outcome], inputs: FoldInputs, condition: Condition
) -> list[BatchRecord]:
    unit = members[0][0]
    values: dict[tuple[str, float | None], list[float]] = {}
    reasons: dict[tuple[str, float | None], str] = {}
    for _, measures in members:
        for measure in measures:
            if unit.kind == "permuted" and measure.score.name != "AUROC":
                continue
            key = (measure.score.name, measure.top_share)
            values.setdefault(key, [])
            if measure.score.value is None:
                reasons.setdefault(key, measure.score.reason)
            else:
                values[key].append(measure.score.value)
    batches = np.unique(inputs.batches[unit.task.rows])
    settings = inputs.settings
    conventions = recorded_values(settings)
    records = []
    for (name, share), found in values.items():
        mean, sd = mean_and_sd(found)
        records.append(
            BatchRecord(
                source=source.name,
                view=source.view,
                label=unit.task.title,
                condition=unit.condition,
                protocol=unit.protocol,
                measure=name,
                top_share=share,
                value=mean,
                sd=sd,
                null=1.0 / batches.size if unit.kind == "batch" else None,
                n_folds=len(found),
                n_rows=unit.task.rows.size,
                n_positive=int((unit.task.labels == 1).sum()) if unit.kind != "batch" else 0,
                n_batches=batches.size,
                n_features=condition.transform.target_dim,
                fit_on=settings.fit_on if unit.kind != "batch" else "all",
                converged=condition.converged,
                iterations=condition.n_iter,
                ica_solver=settings.transform.ica.solver if condition.n_iter is not None else None,
                seed=settings.seed,
                reason="" if found else reasons.get((name, share), "no fold could be scored"),
                conventions=conventions,
            )
        )
    return records


def _with_null(records: list[BatchRecord]) -> list[BatchRecord]:
    """Put the permuted AUROC next to the AUROC that it is the null of."""
    permuted = {
        (one.label, one.condition, one.protocol): one.value
        for one in records
        if one.measure == "AUROC-permuted"
    }
    return [
        replace(one, null=permuted.get((one.label, one.condition, one.protocol)))
        if one.measure == "AUROC"
        else one
        for one in records
    ]


def _means(records: list[BatchRecord]) -> list[BatchRecord]:
    """Average every measure over the labels, with the standard deviation over them."""
    groups: dict[tuple[str, str, str, float | None], list[BatchRecord]] = {}
    for one in records:
        if one.measure != "batch-accuracy":
            key = (one.condition, one.protocol, one.measure, one.top_share)
            groups.setdefault(key, []).append(one)
    means = []
    for members in groups.values():
        known = [one.value for one in members if one.value is not None]
        if len(members) < 2 or not known:
            continue
        mean, sd = mean_and_sd(known)
        nulls = [one.null for one in members if one.null is not None]
        means.append(
            replace(
                members[0],
                label=MEAN_LABEL,
                value=mean,
                sd=sd,
                null=float(np.mean(nulls)) if nulls else None,
                n_folds=len(known),
                n_rows=sum(one.n_rows for one in members),
                n_positive=sum(one.n_positive for one in members),
                reason="",
            )
        )
    return means
