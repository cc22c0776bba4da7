"""Splits of rows by batch: no batch ever stands on both sides."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Int

from repalign.exceptions import InputError

PROTOCOLS = ("leave-batches-out", "train-on-one")


@dataclass(frozen=True, eq=False)
class BatchFold:
    """One split; ``reason`` says why it cannot be scored, and is empty when it can."""

    name: str
    train: Int[np.ndarray, " a"]
    test: Int[np.ndarray, " b"]
    reason: str = ""


def batch_folds(
    protocol: str, labels: Int[np.ndarray, " n"], batches: Any, *, n_folds: int, seed: int
) -> tuple[BatchFold, ...]:
    """Return the folds of one of ``PROTOCOLS``.

    Raises InputError where there are none.
    """
    if protocol == "train-on-one":
        return train_on_one_batch(labels, batches)
    return leave_batches_out(labels, batches, n_folds=n_folds, seed=seed)


def leave_batches_out(
    labels: Int[np.ndarray, " n"], batches: Any, *, n_folds: int, seed: int
) -> tuple[BatchFold, ...]:
    """Deal the batches into folds with both labels in about their overall shares; test on each.

    Batches are dealt largest first (in random order among equals), each to the fold in which it
    brings the label counts closest to equal shares. With fewer batches than folds there are as
    many folds as batches.

    Raises InputError for labels that are not 0/1 with both present, or for a single batch.
    """
    names, codes = _checked(labels, batches)
    if n_folds < 2:
        raise InputError(f"{n_folds} folds; expected at least 2")
    counts = np.stack(
        [np.bincount(codes[labels == label], minlength=names.size) for label in (0, 1)]
    )
    member = _deal(counts, min(n_folds, names.size), np.random.default_rng(seed))
    folds = []
    for k in range(member.max() + 1):
        held_out = member[codes] == k
        title = ", ".join(str(name) for name in names[member == k])
        folds.append(_fold(f"without {title}", labels, ~held_out, held_out))
    return tuple(folds)


def train_on_one_batch(labels: Int[np.ndarray, " n"], batches: Any) -> tuple[BatchFold, ...]:
    """Train on each batch alone and test on all the others (the paper's A.7.4).

    Raises InputError for labels that are not 0/1 with both present, or for a single batch.
    """
    names, codes = _checked(labels, batches)
    return tuple(
        _fold(f"only {name}", labels, codes == k, codes != k) for k, name in enumerate(names)
    )


def permute_within(
    labels: Int[np.ndarray, " n"], batches: Any, rng: np.random.Generator
) -> Int[np.ndarray, " n"]:
    """Shuffle the labels inside every batch: what a batch says about its labels stays as it is."""
    result = labels.copy()
    codes = np.unique(np.asarray(batches), return_inverse=True)[1]
    for k in range(codes.max() + 1):
        rows = np.flatnonzero(codes == k)
        result[rows] = labels[rng.permutation(rows)]
    return result


def _checked(labels: np.ndarray, batches: Any) -> tuple[np.ndarray, np.ndarray]:
    names, codes = np.unique(np.asarray(batches), return_inverse=True)
    if codes.shape != labels.shape:
        raise InputError(f"{labels.size} labels but {codes.size} batches; expected one per row")
    present = np.unique(labels)
    if not np.isin(present, (0, 1)).all() or present.size < 2:
        shown = ", ".join(str(value) for value in present[:5])
        raise InputError(f"the label takes the values {shown}; expected both 0 and 1")
    if names.size < 2:
        raise InputError(
            f"there is one batch only ({names[0]}); held-out batches need at least two"
        )
    return names, codes


def _deal(counts: np.ndarray, n_folds: int, rng: np.random.Generator) -> np.ndarray:
    """Give every batch a fold; ``counts`` are 2 × batches."""
    totals = counts.sum(axis=1)
    shuffled = rng.permutation(counts.shape[1])
    order = shuffled[np.argsort(-counts[:, shuffled].sum(axis=0), kind="stable")]
    member = np.zeros(counts.shape[1], dtype=np.int64)
    filled = np.zeros((n_folds, 2))
    for dealt, batch in enumerate(order):
        share = counts[:, batch] / totals
        # Squared deviation from equal shares after giving this batch to each fold in turn.
        cost = ((filled + share) ** 2 - filled**2).sum(axis=1)
        is_empty = filled.sum(axis=1) == 0
        if order.size - dealt <= is_empty.sum():
            cost[~is_empty] = np.inf
        member[batch] = int(np.argmin(cost))
        filled[member[batch]] += share
    return member


def _fold(name: str, labels: np.ndarray, train: np.ndarray, test: np.ndarray) -> BatchFold:
    reason = ""
    for side, chosen in (("training", train), ("test", test)):
        present = np.unique(labels[chosen])
        if present.size < 2:
            reason = f"all {int(chosen.sum())} {side} rows have the label {present[0]}"
    return BatchFold(name, np.flatnonzero(train), np.flatnonzero(test), reason)
