"""What ``deconfound`` computes and how; every choice that changes a number."""

from dataclasses import dataclass
from typing import Literal

from repalign.conditions.settings import (
    BATCH_TRANSFORM,
    StudySettings,
    TransformSettings,
)
from repalign.core.batches.folds import PROTOCOLS
from repalign.core.resampling.kinds import null_option
from repalign.options import nested, option

BATCHES = "Labels and batches"

FitOn = Literal["all", "train"]


@dataclass(frozen=True)
class BatchSettings(StudySettings):
    """Deconfounding: does a label survive a change of batch?

    Attributes:
        protocols: Ways to hold batches out.
        n_folds: Folds of batches.
        control: The value of a label column against which each other value is judged; needed
            where a column has more than two values.
        top_percent: Percentages of the features for the concentration, most important first.
        fit_on: ``all`` rows (the paper: transductive, but blind to labels) or the ``train`` rows
            of each fold.
        n_permuted: Rounds with labels permuted within batches, for the control; 0 for none.
        judge_batches: Also tell how well the batch itself is predicted.
        rounds: Boosting rounds.

    Example:
        >>> BatchSettings(n_folds=3, control="DMSO", top_percent=(5, 20)).top_shares
        (0.05, 0.2)
    """

    transform: TransformSettings = nested(BATCH_TRANSFORM)
    protocols: tuple[str, ...] = option(
        PROTOCOLS[:1],
        "leave-batches-out deals the batches into folds; train-on-one trains on one batch and "
        "tests on all others; or both, separated by a comma.",
        panel=BATCHES,
        choices=PROTOCOLS,
        metavar="NAMES",
    )
    n_folds: int = option(5, "Folds of batches.", flag="folds", panel=BATCHES, least=2)
    control: str | None = option(
        None,
        "Value of a label column against which every other value is judged.",
        panel=BATCHES,
        absent="none: labels are 0 and 1",
    )
    top_percent: tuple[float, ...] = option(
        (5, 10, 25),
        "Percentages of the features for the concentration, separated by commas.",
        flag="top",
        panel=BATCHES,
        above=0,
        below=100,
        absent="none",
        metavar="NUMBERS",
    )
    fit_on: FitOn = option(
        "all",
        "Fit whitening and ICA on all rows (the paper; no label is seen) or on the training rows "
        "of each fold.",
        panel=BATCHES,
    )
    n_permuted: int = null_option("permuted labels", BATCHES)
    judge_batches: bool = option(True, "Also tell how well the batch itself is predicted.", flag="")
    rounds: int = option(100, "Boosting rounds.", flag="", least=1, recorded=True)

    @property
    def top_shares(self) -> tuple[float, ...]:
        """The percentages as shares."""
        return tuple(percent / 100 for percent in self.top_percent)
