"""What ``disentangle`` computes and how; every choice that changes a number."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from repalign.aliases import MismatchPolicy
from repalign.exceptions import InputError

IcaSolver = Literal["picard", "sklearn"]
FitOn = Literal["all", "train"]
ALL_CONDITIONS = ("raw", "pca", "pca+ica", "pca+rotation", "ica")
BATCH_CONDITIONS = ("raw", "pca", "pca+ica", "pca+rotation")


@dataclass(frozen=True)
class TransformSettings:
    """The conditions, and how whitening and ICA are fitted.

    Attributes:
        conditions: some of raw, pca, pca+ica, pca+rotation, ica.
        ica_solver: ``picard`` converges; ``sklearn`` is the paper's FastICA.
        ica_contrast: logcosh, exp or cube.
        max_passes: passes of the solver over the rows at most; None for 400 (picard) or 200
            (sklearn, its default).
        components: leading principal directions kept by the whitened conditions; None for all.
        seed: of random rotations, ICA starts, k-NN jitter, folds and trees.
        on_mismatch: what to do with rows that have no factor, label or batch.
    """

    conditions: tuple[str, ...] = ALL_CONDITIONS
    ica_solver: IcaSolver = "picard"
    ica_contrast: str = "logcosh"
    max_passes: int | None = None
    components: int | None = None
    seed: int = 0
    on_mismatch: MismatchPolicy = "refuse"


@dataclass(frozen=True)
class FactorSettings:
    """Scores against ground-truth factors.

    Attributes:
        transform: the conditions and their fits.
        scores: groups of scores; by default all but sap, explicitness and dci, which train
            predictors.
        infomec: ``standard``, ``reference`` or ``training``.
        discrete_latents: the latents are codes, not numbers.
        factors: names of the columns that are factors; by default all.
        kinds: ``discrete`` or ``continuous`` by factor, where the guess is wrong.
        n_bins: bins of equal frequency for the mutual information of continuous factors.
        max_rows: rows scored, drawn at random from all; 0 for all.
        n_seeds: repetitions with other random rotations and ICA starts.
        n_null: rounds of shuffled factors; 0 for none.
        n_halves: half-samples for the intervals; 0 for none.
    """

    transform: TransformSettings = field(default_factory=TransformSettings)
    scores: tuple[str, ...] = ()
    infomec: str = "standard"
    discrete_latents: bool = False
    factors: tuple[str, ...] = ()
    kinds: Mapping[str, str] = field(default_factory=dict)
    n_bins: int = 20
    max_rows: int = 10_000
    n_seeds: int = 1
    n_null: int = 10
    n_halves: int = 20

    def __post_init__(self) -> None:
        _check_counts(
            n_seeds=(self.n_seeds, 1), n_null=(self.n_null, 0), n_halves=(self.n_halves, 0),
            max_rows=(self.max_rows, 0),
        )  # fmt: skip


@dataclass(frozen=True)
class BatchSettings:
    """Deconfounding: does a label survive a change of batch?

    Attributes:
        transform: the conditions and their fits.
        protocols: ``leave-batches-out`` and, of the paper's appendix, ``train-on-one``.
        n_folds: folds of batches.
        control: the value of a label column against which each other value is judged; needed
            where a column has more than two values.
        top_shares: shares of features for the concentration, most important first.
        fit_on: ``all`` rows (the paper: transductive, but blind to labels) or the ``train`` rows
            of each fold.
        n_permuted: rounds with labels permuted within batches, for the control; 0 for none.
        judge_batches: also tell how well the batch itself is predicted.
        rounds: boosting rounds.
        workers: folds side by side.
    """

    transform: TransformSettings = field(
        default_factory=lambda: TransformSettings(conditions=BATCH_CONDITIONS)
    )
    protocols: tuple[str, ...] = ("leave-batches-out",)
    n_folds: int = 5
    control: str | None = None
    top_shares: tuple[float, ...] = (0.05, 0.1, 0.25)
    fit_on: FitOn = "all"
    n_permuted: int = 1
    judge_batches: bool = True
    rounds: int = 100
    workers: int = 1

    def __post_init__(self) -> None:
        _check_counts(
            n_folds=(self.n_folds, 2), n_permuted=(self.n_permuted, 0), rounds=(self.rounds, 1),
            workers=(self.workers, 1),
        )  # fmt: skip
        for protocol in self.protocols:
            if protocol not in PROTOCOLS:
                raise InputError(
                    f"no protocol is called {protocol}; expected {' or '.join(PROTOCOLS)}"
                )
        if not self.protocols:
            raise InputError(f"no protocol was given; expected {' or '.join(PROTOCOLS)}")
        for share in self.top_shares:
            if not 0 < share < 1:
                raise InputError(
                    f"share {share} of the features; expected a number between 0 and 1"
                )


PROTOCOLS = ("leave-batches-out", "train-on-one")


def _check_counts(**counts: tuple[int, int]) -> None:
    for name, (value, least) in counts.items():
        if value < least:
            raise InputError(f"{name} is {value}; expected at least {least}")
