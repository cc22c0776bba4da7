"""How few features a model rests on."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from repalign.core.score import Score, undefined
from repalign.exceptions import InputError


def hoyer_sparsity(weights: Any) -> Score:
    """Hoyer sparsity (√d − ‖w‖₁/‖w‖₂)/(√d − 1): 0 when all are equal, 1 when one stands alone.

    Raises InputError for negative weights or anything but a vector.
    """
    vector = np.asarray(weights, dtype=np.float64)
    if vector.ndim != 1 or np.any(vector < 0):
        raise InputError(
            f"got weights of shape {vector.shape} with minimum {vector.min(initial=0.0):g}; "
            "expected one vector of non-negative weights"
        )
    if vector.size < 2:
        return undefined("Hoyer", f"sparsity needs at least two features, got {vector.size}")
    if not vector.any():
        return undefined("Hoyer", "the model uses no feature at all")
    root = np.sqrt(vector.size)
    return Score("Hoyer", float((root - vector.sum() / np.linalg.norm(vector)) / (root - 1)))


def top_features(
    weights: Float[np.ndarray, " d"], share: float
) -> tuple[Int[np.ndarray, " a"], Int[np.ndarray, " b"]]:
    """Split the features into the most important ``share`` of them and the rest, both ascending.

    At least one feature stands on each side; ties go to the earlier feature.

    Raises InputError when the share is not between 0 and 1 or there is one feature.
    """
    if not 0 < share < 1:
        raise InputError(f"share {share} of the features; expected a number between 0 and 1")
    if weights.size < 2:
        raise InputError(f"{weights.size} feature cannot be split; expected at least 2")
    n_top = min(weights.size - 1, max(1, round(share * weights.size)))
    order = np.argsort(-weights, kind="stable")
    return np.sort(order[:n_top]), np.sort(order[n_top:])


def concentration(top: float, rest: float) -> tuple[Score, Score, Score]:
    """Compare the AUROC of the top features with that of the rest, in three readings.

    difference: top − rest; relative: top / rest − 1; above-chance: (top − rest) / (top − 1/2),
    the share of what the top features achieve beyond chance that the rest do not.
    """
    difference = Score("concentration-difference", top - rest)
    relative = (
        Score("concentration-relative", top / rest - 1)
        if rest > 0
        else undefined(
            "concentration-relative", "the rest ranks every pair the wrong way (AUROC 0)"
        )
    )
    name = "concentration-above-chance"
    above = (
        Score(name, (top - rest) / (top - 0.5))
        if top > 0.5
        else undefined(name, f"the top features are not above chance (AUROC {top:.3f})")
    )
    return difference, relative, above


def mean_and_sd(values: Sequence[float]) -> tuple[float | None, float | None]:
    """Return the mean and the standard deviation; None where undefined.

    Over folds the deviation is not an error of the mean: folds share the rows that fit.
    """
    if not values:
        return None, None
    mean = float(np.mean(values))
    if len(values) < 2:
        return mean, None
    return mean, float(np.std(values, ddof=1))
