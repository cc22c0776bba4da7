"""ICA as a map between two representations: each unmixed alone, then the components matched."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from repalign.core.ica.components import IcaFit
from repalign.core.maps.affine import AffineMap, centred_map
from repalign.core.maps.permutation import SignedMatching, match_signed
from repalign.core.moments import PairMoments


@dataclass(frozen=True, eq=False)
class IcaMatching:
    """Components of two fits, paired with signs.

    Attributes:
        matching: Pairs of components and their signs, by rising target number.
        correlation: |correlation| of each pair on the rows of the moments.
    """

    matching: SignedMatching
    correlation: Float[np.ndarray, " k"]

    @property
    def mean_correlation(self) -> float:
        """Mean |correlation| over the pairs: the MCC between the two sets of components."""
        return float(self.correlation.mean())


def match_components(moments: PairMoments, source: IcaFit, target: IcaFit) -> IcaMatching:
    """Match the components of two fits by the Hungarian assignment on their |correlation|.

    The correlations come from the moments, C = U_A S_xy U_Bᵀ normalised by the components'
    variances: no row is read.
    """
    cross = source.unmixing @ moments.sxy @ target.unmixing.T
    spread = np.sqrt(np.outer(_variances(source, moments.sxx), _variances(target, moments.syy)))
    correlation = np.divide(cross, spread, out=np.zeros_like(cross), where=spread > 0)
    matching = match_signed(correlation)
    return IcaMatching(matching=matching, correlation=matching.value)


def _variances(fit: IcaFit, scatter: Float[np.ndarray, "d d"]) -> Float[np.ndarray, " k"]:
    return np.maximum(np.einsum("ij,ij->i", fit.unmixing @ scatter, fit.unmixing), 0.0)


def matched_components_map(
    moments: PairMoments, source: IcaFit, target: IcaFit, matching: SignedMatching
) -> AffineMap:
    """Return the map from source rows to the target's components (for ``ica-components``).

    Target components that have no partner are predicted by their mean, zero.
    """
    matrix = np.zeros((moments.source_dim, target.rank))
    matrix[:, matching.target] = source.unmixing[matching.source].T * matching.sign
    shift = (moments.mean_y - target.mean) @ target.unmixing.T - moments.mean_x @ matrix
    return AffineMap("ica-components", matrix, shift)


def ica_map(
    moments: PairMoments,
    source: IcaFit,
    target: IcaFit,
    matching: SignedMatching,
    *,
    scale: bool = False,
) -> AffineMap:
    """Return source → components → signed matching → the target's mixing → target space.

    One affine map, so that it compares with the other rows of the table (spec: reading ``ica``).
    With ``scale`` it is multiplied by the one global factor of least squared error,
    s = ⟨M, S_xy⟩ / ⟨M, S_xx M⟩.
    """
    matched = source.unmixing[matching.source].T * matching.sign
    matrix = matched @ target.mixing[:, matching.target].T
    if scale:
        energy = float(np.sum(matrix * (moments.sxx @ matrix)))
        matrix = matrix * (float(np.sum(matrix * moments.sxy)) / energy if energy > 0 else 1.0)
    kind = "ica+scale" if scale else "ica"
    return centred_map(kind, matrix, moments.mean_x, moments.mean_y)
