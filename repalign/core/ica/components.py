"""What an ICA found: its components, how those of two fits match, and which starts to keep.

The contrast has several optima of nearly one height, and which a search finds is chance that the
rows cannot settle. On rugged data the best contrast does not repeat either, but the mean over
pairs of starts of the two sides does. Where a bad mode exists its contrast betrays it, hence only
the better half is kept. Two that agree need no more of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from repalign.core.affine import AffineMap
from repalign.core.ica.settings import IcaSettings
from repalign.core.linalg import SignedMatching, match_signed
from repalign.core.moments import PairMoments


@dataclass(frozen=True, eq=False)
class IcaFit:
    """Independent components of one representation, and how far the fit can be trusted.

    ``(x − mean) @ unmixing.T`` are the components, of unit variance on the rows that set the
    covariance; ``z @ mixing.T + mean`` brings them back. They stand in order of falling
    non-Gaussianity, each with the sign that makes its third moment positive.

    Attributes:
        mean: Length d.
        unmixing: k×d.
        mixing: d×k, through the truncated whitening (never a pseudo-inverse of the unmixing).
        n_iter: Passes over the rows; sklearn: iterations.
        converged: The solver's own criterion was met.
        gradient_rms: Root mean square of the off-diagonal skew gradient at the end, the same
            measure for every solver.
        contrast_value: −Σ|E G(y) − E G(normal)|; lower is more non-Gaussian.
        kurtosis: Excess kurtosis of each component.
        is_sign_arbitrary: Components whose E y³, positive by choice of their sign, is within a
            standard error of zero.
        n_identifiable: Components that are less Gaussian than any that a fit finds in Gaussian
            data of this size, which are the first; known for ``logcosh`` only, else None.
        n_fit_rows: Rows that were fitted.
        settings: What was asked for.
        warnings: What a user should know of this fit.
    """

    mean: Float[np.ndarray, " d"]
    unmixing: Float[np.ndarray, "k d"]
    mixing: Float[np.ndarray, "d k"]
    n_iter: int
    converged: bool
    gradient_rms: float
    contrast_value: float
    kurtosis: Float[np.ndarray, " k"]
    is_sign_arbitrary: Bool[np.ndarray, " k"]
    n_identifiable: int | None
    n_fit_rows: int
    settings: IcaSettings
    warnings: tuple[str, ...] = ()

    @property
    def rank(self) -> int:
        """Number k of components: the numerical rank."""
        return int(self.unmixing.shape[0])

    def to_components(self) -> AffineMap:
        """Return the map from rows to their components."""
        return AffineMap("ica-unmixing", self.unmixing.T, -(self.unmixing @ self.mean))


def match_components(moments: PairMoments, source: IcaFit, target: IcaFit) -> SignedMatching:
    """Match the components of two fits by the Hungarian assignment on their |correlation|.

    The values of the pairs are their |correlation|. It comes from the moments,
    C = U_A S_xy U_Bᵀ normalised by the components' variances: no row is read.
    """
    cross = source.unmixing @ moments.sxy @ target.unmixing.T
    spread = np.sqrt(np.outer(_variances(source, moments.sxx), _variances(target, moments.syy)))
    correlation = np.divide(cross, spread, out=np.zeros_like(cross), where=spread > 0)
    return match_signed(correlation)


def _variances(fit: IcaFit, scatter: Float[np.ndarray, "d d"]) -> Float[np.ndarray, " k"]:
    return np.maximum(np.einsum("ij,ij->i", fit.unmixing @ scatter, fit.unmixing), 0.0)


AGREEMENT = 0.99
"""Mean matched |correlation| of two starts from which on they are taken for one optimum."""


FIRST_STARTS = 2
MORE_STARTS = 6
"""Starts that are made where the first do not agree; of these the better half is kept."""


def best_starts(fits: Sequence[IcaFit], n_kept: int) -> tuple[IcaFit, ...]:
    """Return the starts of best contrast, the best first."""
    return tuple(sorted(fits, key=lambda fit: fit.contrast_value)[:n_kept])


def start_agreement(fits: Sequence[IcaFit], covariance: Float[np.ndarray, "d d"]) -> float | None:
    """Return the mean matched |correlation| of the first start with the others."""
    if len(fits) < 2:
        return None
    scaled = []  # components of unit variance on the rows of the covariance
    for fit in fits:
        variance = _variances(fit, covariance)
        scaled.append(fit.unmixing / np.sqrt(np.where(variance > 0, variance, 1.0))[:, None])
    known = scaled[0] @ covariance
    return float(np.mean([match_signed(known @ other.T).value.mean() for other in scaled[1:]]))
