"""scikit-learn's FastICA as a solver, for fidelity to published settings."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from repalign.aliases import Rows


@dataclass(frozen=True, eq=False)
class Unmixing:
    """What a solver of ICA returns.

    Attributes:
        unmixing: k×d.
        mixing: d×k.
        n_iter: Iterations or passes.
        converged: The solver's own criterion was met.
    """

    unmixing: Float[np.ndarray, "k d"]
    mixing: Float[np.ndarray, "d k"]
    n_iter: int
    converged: bool


def fit_fastica(
    rows: Rows,
    *,
    rank: int,
    contrast: str,
    seed: int,
    max_iter: int,
    tolerance: float,
) -> Unmixing:
    """Fit scikit-learn's FastICA (whitened to unit variance) on all rows in double precision.

    Its default settings where the rank is full; truncated to the numerical rank elsewhere, as
    its own whitening blows rounding noise up to unit variance. All rows are held in memory.
    """
    values = rows.read(0, rows.shape[0]).astype(np.float64)
    full = rank == min(values.shape)
    estimator, converged = _run(
        values,
        n_components=None if full else rank,
        whiten="unit-variance",
        fun=contrast,
        random_state=seed,
        max_iter=max_iter,
        tol=tolerance,
    )
    return Unmixing(
        np.asarray(estimator.components_),
        np.asarray(estimator.mixing_),
        int(estimator.n_iter_),
        converged,
    )


def fit_fastica_unwhitened(
    rows: Rows,
    mean: Float[np.ndarray, " d"],
    *,
    scale: float,
    contrast: str,
    seed: int,
    max_iter: int,
    tolerance: float,
) -> Unmixing:
    """Fit FastICA without whitening (paper, A.7.3) on rows that are centred and divided by scale.

    FastICA assumes unit variances; without whitening it depends on the scale of its input, which
    is therefore divided by one global number first, the same for all columns.
    """
    values = (rows.read(0, rows.shape[0]).astype(np.float64) - mean) / scale
    estimator, converged = _run(
        values, whiten=False, fun=contrast, random_state=seed, max_iter=max_iter, tol=tolerance
    )
    rotation = np.asarray(estimator.components_)
    return Unmixing(rotation / scale, rotation.T * scale, int(estimator.n_iter_), converged)


def _run(values: np.ndarray, **settings: object) -> tuple[Any, bool]:
    from sklearn.decomposition import FastICA
    from sklearn.exceptions import ConvergenceWarning

    estimator = FastICA(**settings)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimator.fit(values)
    converged = not any(issubclass(w.category, ConvergenceWarning) for w in caught)
    return estimator, converged
