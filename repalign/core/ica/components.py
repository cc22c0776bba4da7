"""What an ICA found, apart from how it is found."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from repalign.core.ica.settings import IcaSettings
from repalign.core.maps.affine import AffineMap


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
