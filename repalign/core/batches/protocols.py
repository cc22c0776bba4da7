"""The ways to hold batches out: the one list that settings, help and docs follow."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from repalign.core.batches.folds import BatchFold, leave_batches_out, train_on_one_batch


@dataclass(frozen=True, eq=False)
class BatchedLabels:
    """Labels 0 and 1, the batch of each, and how the batches are dealt."""

    labels: Int[np.ndarray, " n"]
    batches: np.ndarray
    n_folds: int
    seed: int


@dataclass(frozen=True)
class Protocol:
    """One way to hold batches out; ``folds`` raises InputError where it cannot."""

    name: str
    definition: str
    folds: Callable[[BatchedLabels], tuple[BatchFold, ...]]


PROTOCOLS = (
    Protocol(
        "leave-batches-out",
        "deals the batches into folds so that both labels are spread evenly; each fold is judged "
        "by a model of the others",
        lambda of: leave_batches_out(of.labels, of.batches, n_folds=of.n_folds, seed=of.seed),
    ),
    Protocol(
        "train-on-one",
        "trains on each batch alone and tests on all others",
        lambda of: train_on_one_batch(of.labels, of.batches),
    ),
)

PROTOCOL_NAMES = tuple(protocol.name for protocol in PROTOCOLS)


def protocol_called(name: str) -> Protocol:
    """Return the protocol of this name."""
    return next(protocol for protocol in PROTOCOLS if protocol.name == name)
