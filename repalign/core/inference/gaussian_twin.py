"""The Gaussian twin of a pair: same means and covariances, and nothing for ICA to find.

On Gaussian rows no rotation is better than another, so that any efficiency that ICA shows
there comes from fitting both sides on the same rows. It is the null of the ICA efficiency, if the
twin goes through all that the pair went through: the same rows for both sides or disjoint ones,
the same splits, the same starts. So what is compared is a procedure, which takes any rows.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from repalign.core.moments import PairMoments


def draw_gaussian_twin(
    moments: PairMoments, n_rows: int, *, seed: int
) -> tuple[Float[np.ndarray, "n p"], Float[np.ndarray, "n q"]]:
    """Draw paired Gaussian rows with the means and joint covariance of the moments."""
    p = moments.source_dim
    covariance = np.block([[moments.sxx, moments.sxy], [moments.sxy.T, moments.syy]]) / moments.n
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0))
    white = np.random.default_rng(seed).standard_normal((n_rows, values.size))
    rows = white @ root.T
    return rows[:, :p] + moments.mean_x, rows[:, p:] + moments.mean_y


Procedure = Callable[[Float[np.ndarray, "n p"], Float[np.ndarray, "n q"]], float]
"""Paired rows to a number, such as the ICA efficiency: the one that judged the pair itself."""


@dataclass(frozen=True)
class TwinNull:
    """What a procedure says of Gaussian twins; values that are not defined are left out."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Mean of the twins, NaN where there are none."""
        return float(np.mean(self.values)) if self.values else float("nan")

    @property
    def spread(self) -> float:
        """Standard deviation over twins, NaN of fewer than two."""
        return float(np.std(self.values, ddof=1)) if len(self.values) > 1 else float("nan")

    def p_value(self, observed: float) -> float:
        """Return (b + 1) / (m + 1), b the twins at least as large; NaN without twins."""
        if not self.values or not np.isfinite(observed):
            return float("nan")
        return (sum(value >= observed for value in self.values) + 1) / (len(self.values) + 1)


def gaussian_twins(
    moments: PairMoments, n_rows: int, procedure: Procedure, *, n_twins: int, seed: int
) -> TwinNull:
    """Return what the procedure that judged a pair says of Gaussian twins of as many rows."""
    values = [
        procedure(*draw_gaussian_twin(moments, n_rows, seed=seed + number))
        for number in range(n_twins)
    ]
    return TwinNull(tuple(float(value) for value in values if np.isfinite(value)))
