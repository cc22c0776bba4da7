"""What to make of several independent starts of ICA: which to keep, what they say, how surely.

The contrast has several optima of nearly one height, and which a search finds is chance that the
rows cannot settle. On rugged data the best contrast does not repeat either, but the mean over
pairs of starts of the two sides does. Where a bad mode exists its contrast betrays it, hence only
the better half is kept. Two that agree need no more of them.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from repalign.core.ica.components import IcaFit
from repalign.core.maps.permutation import match_signed

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
    scaled = [_unit_variance(fit.unmixing, covariance) for fit in fits]
    known = scaled[0] @ covariance
    return float(np.mean([match_signed(known @ other.T).value.mean() for other in scaled[1:]]))


def _unit_variance(
    unmixing: Float[np.ndarray, "k d"], covariance: Float[np.ndarray, "d d"]
) -> Float[np.ndarray, "k d"]:
    """Return components of unit variance on the rows of the covariance."""
    variance = np.einsum("ij,ij->i", unmixing @ covariance, unmixing)
    return unmixing / np.sqrt(np.where(variance > 0, variance, 1.0))[:, None]
