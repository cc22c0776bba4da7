"""One fold of the deconfounding table: AUROC on held-out batches, sparsity, concentration."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from repalign.core.batches.folds import BatchFold
from repalign.core.batches.sparsity import concentration, hoyer_sparsity, top_features
from repalign.core.batches.trees import BoostingSettings, judge
from repalign.core.score import Score


@dataclass(frozen=True)
class FoldMeasure:
    """One measure of one fold; ``top_share`` is set for the concentrations."""

    score: Score
    top_share: float | None = None


def judge_fold(
    values: Float[np.ndarray, "n d"],
    labels: Int[np.ndarray, " n"],
    fold: BatchFold,
    *,
    boosting: BoostingSettings,
    top_shares: tuple[float, ...],
    seed: int,
) -> tuple[FoldMeasure, ...]:
    """Train on the fold's training rows and judge on its test rows.

    AUROC, Hoyer sparsity of the split counts and, for every one of ``top_shares``, the AUROC of
    that share of the features (the most important by the splits of the model on all features),
    of the rest, and the three readings of their difference.
    """
    train, test = values[fold.train], values[fold.test]
    train_labels, test_labels = labels[fold.train], labels[fold.test]
    verdict = judge((train, train_labels), (test, test_labels), boosting, seed=seed)
    measures = [
        FoldMeasure(Score("AUROC", verdict.auroc)),
        FoldMeasure(hoyer_sparsity(verdict.split_counts)),
    ]
    for share in top_shares if values.shape[1] > 1 else ():
        sides = [
            judge(
                (train[:, side], train_labels), (test[:, side], test_labels), boosting, seed=seed
            ).auroc
            for side in top_features(verdict.split_counts, share)
        ]
        scores = [Score("AUROC-top", sides[0]), Score("AUROC-rest", sides[1])]
        scores += concentration(sides[0], sides[1])
        measures += [FoldMeasure(score, share) for score in scores]
    return tuple(measures)
