"""Random-rotation null of the ICA efficiency.

Whitened components that identify nothing are an arbitrary rotation of any others. The components
of one side are rotated at random, matched and judged again; no ICA is fitted anew. The two fits
must not share rows: on the same rows their agreement is partly noise that both have seen.
"""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from repalign.core.ica.components import IcaFit


@dataclass(frozen=True, eq=False)
class RotationNull:
    """The efficiency of the best starts on the rows of the null, as observed and rotated."""

    observed: float
    rotated: Float[np.ndarray, " draws"]

    @property
    def p_value(self) -> float:
        """(b + 1) / (m + 1), b the rotations with at least the observed efficiency."""
        if not np.isfinite(self.observed) or not np.isfinite(self.rotated).all():
            return float("nan")
        as_high = np.count_nonzero(self.rotated >= self.observed)
        return (as_high + 1) / (self.rotated.size + 1)

    @property
    def mean(self) -> float:
        """Mean efficiency after rotation."""
        return float(self.rotated.mean())

    @property
    def spread(self) -> float:
        """Standard deviation of the efficiency after rotation."""
        return float(self.rotated.std(ddof=1)) if self.rotated.size > 1 else float("nan")


def random_rotation(size: int, rng: np.random.Generator) -> Float[np.ndarray, "k k"]:
    """Return an orthogonal matrix, uniformly distributed."""
    q, r = np.linalg.qr(rng.standard_normal((size, size)))
    return q * np.sign(np.diag(r))


def rotate_components(fit: IcaFit, rotation: Float[np.ndarray, "k k"]) -> IcaFit:
    """Return a fit whose components are rotated."""
    return replace(fit, unmixing=rotation @ fit.unmixing, mixing=fit.mixing @ rotation.T)
