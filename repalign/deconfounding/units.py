"""The pieces of a deconfounding table that are computed side by side and kept for a rerun."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from repalign.core.batches.folds import BatchFold, batch_folds, permute_within
from repalign.core.batches.judge import FoldMeasure, judge_fold
from repalign.core.batches.trees import BoostingSettings, balanced_accuracy
from repalign.core.conditions.fit import Condition, ConditionFitter
from repalign.core.ica.settings import IcaSettings
from repalign.core.score import Score
from repalign.deconfounding.settings import BatchSettings
from repalign.deconfounding.tasks import LabelTask
from repalign.engine.cache import digest
from repalign.engine.machine import Machine
from repalign.exceptions import InputError
from repalign.printable import byte_size

# Telling K batches grows K trees a round, so there are fewer rounds; and a batch has few rows,
# of which the paper's regularisation, made for two classes, would learn nothing.
BATCH_JUDGE = BoostingSettings(
    rounds=20, learning_rate=0.1, reg_alpha=0.0, min_gain_to_split=0.0, min_data_in_leaf=5
)
BATCH_TEST_SHARE = 0.25

UnitKind = Literal["fold", "permuted", "batch"]


@dataclass(frozen=True, eq=False)
class FoldUnit:
    """One fold of one question in one condition; ``fold`` speaks of rows of the task."""

    kind: UnitKind
    condition: str
    task: LabelTask
    protocol: str
    fold: BatchFold
    permutation: int = 0


@dataclass(frozen=True, eq=False)
class FoldInputs:
    """What all units share: the rows, what was fitted on all of them, and the batch of each.

    Attributes:
        raw: n×d, as they are.
        fitted: Every condition, fitted on all rows.
        batches: Batch of every row.
        settings: What was asked for.
        ica: How ICA is fitted.
        workers: How many units are computed at the same time, and share the memory.
        kept: Rows of the conditions that fit into the memory at once; the others are made again
            by every unit, of its own rows.
    """

    raw: NDArray[Any]
    fitted: Mapping[str, Condition]
    batches: NDArray[Any]
    settings: BatchSettings
    ica: IcaSettings
    workers: int
    kept: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def rows_of(self, condition: str, rows: NDArray[Any]) -> NDArray[Any]:
        """Return some rows in a condition that was fitted on all of them."""
        if condition in self.kept:
            return self.kept[condition][rows]
        return self.fitted[condition].transform.apply(self.raw[rows])


def keep_transformed(inputs: FoldInputs, memory_bytes: int) -> FoldInputs:
    """Transform all rows once for as many conditions as the memory holds besides the rows.

    Raises:
        InputError: The rows themselves, and what every worker needs of them, are too many.
    """
    n_rows, width = inputs.raw.shape
    wide = 8 * n_rows * width
    left = memory_bytes - inputs.raw.nbytes - inputs.workers * wide
    if left < 0:
        needed, allowed = byte_size(memory_bytes - left, up=True), byte_size(memory_bytes)
        raise InputError(
            f"{n_rows} rows of {width} columns and {inputs.workers} workers take "
            f"{needed}, more than the {allowed} allowed; allow more (--memory) "
            "or take fewer workers"
        )
    kept = {}
    for name, condition in inputs.fitted.items():
        left -= 8 * n_rows * condition.transform.target_dim
        if left >= 0:
            kept[name] = condition.transform.apply(inputs.raw)
    return replace(inputs, kept=kept)


def list_units(
    tasks: tuple[LabelTask, ...],
    conditions: Sequence[str],
    batches: NDArray[Any],
    settings: BatchSettings,
) -> Iterator[FoldUnit]:
    """Yield every unit; questions that cannot be split at all yield one with the reason."""
    for task in tasks:
        for protocol in settings.protocols:
            folds = _folds(task, protocol, batches, settings)
            for condition in conditions:
                for fold in folds:
                    yield FoldUnit("fold", condition, task, protocol, fold)
                    for permutation in range(1, settings.n_permuted + 1):
                        yield FoldUnit("permuted", condition, task, protocol, fold, permutation)
    if settings.judge_batches:
        codes = np.unique(batches, return_inverse=True)[1].astype(np.int64)
        task = LabelTask("(batch)", np.arange(codes.size), codes)
        fold = _row_fold(codes, settings.seed)
        for condition in conditions:
            yield FoldUnit("batch", condition, task, "rows", fold)


def run_unit(machine: Machine, unit: FoldUnit, inputs: FoldInputs) -> tuple[FoldMeasure, ...]:
    """Compute one unit; a fold that cannot be scored gives its reason."""
    if unit.fold.reason:
        return (FoldMeasure(Score("AUROC", None, unit.fold.reason)),)
    values, labels = _values(machine, unit, inputs), unit.task.labels
    seed = inputs.settings.seed
    if unit.kind == "batch":
        train, test = ((values[rows], labels[rows]) for rows in (unit.fold.train, unit.fold.test))
        accuracy = balanced_accuracy(train, test, BATCH_JUDGE, seed=seed)
        return (FoldMeasure(Score("batch-accuracy", accuracy)),)
    shares = inputs.settings.top_shares
    if unit.kind == "permuted":
        rng = np.random.default_rng([seed, unit.permutation])
        labels = permute_within(labels, inputs.batches[unit.task.rows], rng)
        shares = ()
    boosting = BoostingSettings(rounds=inputs.settings.rounds)
    return judge_fold(values, labels, unit.fold, boosting=boosting, top_shares=shares, seed=seed)


def unit_key(unit: FoldUnit, inputs: FoldInputs) -> dict[str, Any]:
    """Return everything but the values of the rows that the result of a unit depends on."""
    settings, rows = inputs.settings, unit.task.rows
    names = "\n".join(str(batch) for batch in inputs.batches[rows].tolist())
    boosting = BATCH_JUDGE if unit.kind == "batch" else BoostingSettings(rounds=settings.rounds)
    return {
        "kind": unit.kind,
        "condition": unit.condition,
        "rows": [
            digest(part) for part in (rows, unit.task.labels, unit.fold.train, unit.fold.test)
        ],
        "batches": hashlib.sha256(names.encode()).hexdigest(),
        "reason": unit.fold.reason,
        "permutation": unit.permutation,
        "seed": settings.seed,
        "ica": asdict(inputs.ica),
        "boosting": asdict(boosting),
        "top_shares": settings.top_shares if unit.kind == "fold" else (),
        "fit_on": settings.fit_on,
    }


def _folds(
    task: LabelTask, protocol: str, batches: NDArray[Any], settings: BatchSettings
) -> tuple[BatchFold, ...]:
    labels, batches = task.labels, batches[task.rows]
    try:
        return batch_folds(protocol, labels, batches, n_folds=settings.n_folds, seed=settings.seed)
    except InputError as refusal:
        # One impossible question must not cost the answers to the others.
        nothing = np.zeros(0, dtype=np.int64)
        return (BatchFold("none", nothing, nothing, str(refusal)),)


def _row_fold(codes: NDArray[Any], seed: int) -> BatchFold:
    """Hold out a share of the rows of every batch of two or more rows."""
    rng = np.random.default_rng(seed)
    held_out = np.zeros(codes.size, dtype=np.bool_)
    for batch in range(int(codes.max()) + 1):
        rows = rng.permutation(np.flatnonzero(codes == batch))
        if rows.size > 1:
            held_out[rows[: max(1, round(BATCH_TEST_SHARE * rows.size))]] = True
    reason = "" if codes.max() > 0 else "there is one batch only"
    reason = reason or ("" if held_out.any() else "no batch has two rows")
    return BatchFold("rows", np.flatnonzero(~held_out), np.flatnonzero(held_out), reason)


def _values(machine: Machine, unit: FoldUnit, inputs: FoldInputs) -> NDArray[Any]:
    rows = unit.task.rows
    if inputs.settings.fit_on == "all" or unit.kind == "batch":
        return inputs.rows_of(unit.condition, rows)
    # All rows of the training batches, whatever their label, and none of the held-out ones.
    train = np.isin(inputs.batches, np.unique(inputs.batches[rows[unit.fold.train]]))
    share = max(1, machine.memory_bytes // inputs.workers)
    fitter = ConditionFitter(inputs.raw[train], inputs.ica, share, machine.device)
    condition = fitter.fit(unit.condition, inputs.settings.seed)
    return condition.transform.apply(inputs.raw[rows])
