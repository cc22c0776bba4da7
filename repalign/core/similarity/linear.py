"""Measures that follow from moments: kernel alignment, variance explained, angle, matching."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from repalign.core.maps.permutation import match_signed
from repalign.core.moments import PairMoments
from repalign.core.similarity.canonical import FittingMoments


def linear_cka(moments: PairMoments) -> float:
    """Return linear centred kernel alignment, biased (higher is closer).

    ‖S_xy‖² / (‖S_xx‖ ‖S_yy‖), Kornblith et al. (2019). It is near 1 on unrelated data with
    fewer rows than columns: see ``unbiased_linear_cka``.
    """
    denominator = np.linalg.norm(moments.sxx) * np.linalg.norm(moments.syy)
    return float(np.sum(moments.sxy**2) / denominator) if denominator > 0 else 0.0


@dataclass(frozen=True, eq=False)
class Explained:
    """What least squares leaves of each target column.

    Attributes:
        residual: Σ of squared residuals.
        total: Σ of squared deviations from the mean of the rows that judge.
    """

    residual: Float[np.ndarray, " q"]
    total: Float[np.ndarray, " q"]

    @property
    def pooled(self) -> float:
        """1 − Σ‖residual‖² / Σ‖y − ȳ‖²; 0 where the target does not vary."""
        total = float(self.total.sum())
        return 1.0 - float(self.residual.sum()) / total if total > 0 else 0.0

    @property
    def mean(self) -> float:
        """Mean over target columns of the share explained; constant columns are left out."""
        varies = self.total > 0
        if not varies.any():
            return 0.0
        return float(np.mean(1.0 - self.residual[varies] / self.total[varies]))


def least_squares(fit: FittingMoments, judged: PairMoments | None = None) -> Explained:
    """Return what the linear map of some rows explains of these, or of other rows.

    It is below zero on other rows where the map is worse there than their own mean.
    """
    source = fit.source.directions
    projected = source.vectors.T @ fit.moments.sxy
    if judged is None:
        total = np.diag(fit.moments.syy)
        explained = np.sum(projected**2 / source.values[:, None], axis=0)
        return Explained(total - explained, total)
    matrix = source.vectors @ (projected / source.values[:, None])
    offset = judged.mean_y - fit.moments.mean_y - (judged.mean_x - fit.moments.mean_x) @ matrix
    total = np.diag(judged.syy)
    residual = (
        total
        - 2 * np.einsum("pq,pq->q", matrix, judged.sxy)
        + np.einsum("pq,pq->q", matrix, judged.sxx @ matrix)
        + judged.n * offset**2
    )
    return Explained(residual, total)


def procrustes_angle(fit: PairMoments, judged: PairMoments | None = None) -> float:
    """Return the Procrustes angular distance in radians, 0 to π (lower is closer).

    arccos(‖S_xy‖_* / √(tr S_xx · tr S_yy)), with the nuclear norm, at most π/2; sin² of it is the
    disparity of ``scipy.spatial.procrustes``. On other rows the rotation stays. Widths may differ.
    """
    u, values, vt = np.linalg.svd(fit.sxy, full_matrices=False)
    other = fit if judged is None else judged
    denominator = float(np.sqrt(np.trace(other.sxx) * np.trace(other.syy)))
    if denominator <= 0:
        return float(np.pi / 2)
    inner = float(values.sum() if judged is None else np.sum((u @ vt) * judged.sxy))
    return float(np.arccos(np.clip(inner / denominator, -1.0, 1.0)))


def matched_correlation(fit: PairMoments, judged: PairMoments | None = None) -> float:
    """Return the MCC: the mean correlation of columns matched one to one, with signs.

    The Hungarian assignment maximises Σ|correlation| over min(p, q) pairs of columns of the rows
    that fit; on other rows matching and signs stay. A constant column correlates with nothing: 0.
    """
    matching = match_signed(correlations(fit))
    other = fit if judged is None else judged
    found = correlations(other)[matching.source, matching.target] * matching.sign
    return float(found.mean())


def correlations(moments: PairMoments) -> Float[np.ndarray, "p q"]:
    """Return the correlation of every source with every target column, 0 of a constant one."""
    norms = np.sqrt(np.outer(_varying(moments.sxx), _varying(moments.syy)))
    found = np.divide(moments.sxy, norms, out=np.zeros_like(moments.sxy), where=norms > 0)
    return np.clip(found, -1.0, 1.0)


def _varying(scatter: Float[np.ndarray, "d d"]) -> Float[np.ndarray, " d"]:
    return np.maximum(np.diag(scatter), 0.0)
