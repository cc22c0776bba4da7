"""How well latents recover factors one by one (MCC) and linearly (R²)."""

from typing import Literal

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import linear_sum_assignment
from scipy.stats import rankdata

from repalign.core.factors.scaling import unit_columns
from repalign.core.score import Score, undefined

Correlation = Literal["pearson", "spearman"]


def matched_correlations(
    values: Float[np.ndarray, "n m"],
    latents: Float[np.ndarray, "n l"],
    correlation: Correlation = "pearson",
) -> tuple[Float[np.ndarray, " k"], Int[np.ndarray, " k"], Int[np.ndarray, " k"]]:
    """Match every factor with one latent so that the sum of |correlation| is largest.

    Returns the absolute correlations of the k = min(m, l) pairs, their factors and their latents.
    A constant column correlates with nothing: 0.
    """
    table = absolute_correlations(values, latents, correlation)
    rows, columns = linear_sum_assignment(-table)
    return table[rows, columns], rows, columns


def mean_correlation(
    values: Float[np.ndarray, "n m"],
    latents: Float[np.ndarray, "n l"],
    correlation: Correlation = "pearson",
) -> Score:
    """MCC: the mean over factors of the matched |correlation|; a factor left over counts as 0."""
    name = f"MCC-{correlation}"
    if values.shape[0] < 2:
        return undefined(name, f"a correlation needs at least two rows, got {values.shape[0]}")
    matched, _, _ = matched_correlations(values, latents, correlation)
    return Score(name, float(matched.sum() / values.shape[1]))


def absolute_correlations(
    values: Float[np.ndarray, "n m"],
    latents: Float[np.ndarray, "n l"],
    correlation: Correlation,
) -> Float[np.ndarray, "m l"]:
    """Absolute correlation of every factor with every latent, 0 where a column is constant."""
    if correlation == "spearman":
        values, latents = rankdata(values, axis=0), rankdata(latents, axis=0)
    return np.minimum(1.0, np.abs(unit_columns(values).T @ unit_columns(latents)))


def linear_r2(values: Float[np.ndarray, "n m"], latents: Float[np.ndarray, "n l"]) -> Score:
    """Mean over factors of the in-sample R² of least squares from all latents."""
    n_rows, n_latents = latents.shape
    if n_rows <= n_latents + 1:
        reason = f"{n_rows} rows are fitted perfectly by {n_latents} latents, whatever they hold"
        return undefined("linear-R2", reason)
    return Score("linear-R2", _least_squares_r2(values, latents, slice(None), slice(None)))


def linear_r2_held_out(
    values: Float[np.ndarray, "n m"], latents: Float[np.ndarray, "n l"]
) -> Score:
    """Mean over factors of the R² on the second half of the rows, fitted on the first half.

    It is below zero where the fit is worse than the mean.
    """
    name = "linear-R2-held-out"
    half = values.shape[0] // 2
    if half < 2:
        return undefined(name, f"two halves need at least four rows, got {values.shape[0]}")
    constant = np.ptp(values[half:], axis=0) == 0
    if constant.any():
        return undefined(name, f"{int(constant.sum())} factor(s) are constant in the second half")
    return Score(name, _least_squares_r2(values, latents, slice(0, half), slice(half, None)))


def _least_squares_r2(values: np.ndarray, latents: np.ndarray, train: slice, test: slice) -> float:
    shift, target_shift = latents[train].mean(axis=0), values[train].mean(axis=0)
    weights = np.linalg.lstsq(latents[train] - shift, values[train] - target_shift, rcond=None)[0]
    residual = values[test] - target_shift - (latents[test] - shift) @ weights
    total = ((values[test] - values[test].mean(axis=0)) ** 2).sum(axis=0)
    return float((1.0 - (residual**2).sum(axis=0) / total).mean())
