"""Canonical correlations: of all directions, of the leading ones, and weighted."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Float

from repalign.core.moments import PairMoments
from repalign.core.whitening import PrincipalDirections, principal_directions
from repalign.exceptions import InputError


class SideScatter:
    """One side of moments; its principal directions are found once, however it is paired."""

    def __init__(self, moments: PairMoments) -> None:
        self._moments = moments

    @cached_property
    def directions(self) -> PrincipalDirections:
        """Directions of the source of these moments above rounding noise."""
        moments = self._moments
        return principal_directions(
            moments.sxx,
            mean=moments.mean_x,
            weight=float(moments.n),
            epsilon=moments.epsilon_x,
        )

    def leading(self, components: int | None) -> PrincipalDirections:
        """Return the first of them."""
        found = self.directions
        return replace(
            found, vectors=found.vectors[:, :components], values=found.values[:components]
        )


@dataclass(frozen=True, eq=False)
class FittingMoments:
    """The moments of the rows that fit, with what follows from each side alone."""

    moments: PairMoments
    source: SideScatter
    target: SideScatter

    @classmethod
    def of(cls, moments: PairMoments) -> "FittingMoments":
        """Return them before anything is computed."""
        return cls(moments, SideScatter(moments), SideScatter(moments.swapped()))

    def paired_by(self, sxy: Float[np.ndarray, "p q"]) -> "FittingMoments":
        """Return the same sides with other cross products, as shuffling the pairing makes."""
        return replace(self, moments=replace(self.moments, sxy=sxy))


@dataclass(frozen=True, eq=False)
class Canonical:
    """Canonical correlations on the rows that judge, and the weight of each.

    Attributes:
        correlations: In-sample falling and never negative; held out they are what the directions
            found on other rows correlate here.
        weights: Σ_j |⟨h_i, x_j⟩| over the columns of the source (Morcos et al. 2018).
    """

    correlations: Float[np.ndarray, " k"]
    weights: Float[np.ndarray, " k"]

    @property
    def mean(self) -> float:
        """Mean correlation; 0 where a side does not vary."""
        return float(self.correlations.mean()) if self.correlations.size else 0.0

    @property
    def projection_weighted(self) -> float:
        """The published PWCCA, weights from the source."""
        total = self.weights.sum()
        return float(self.correlations @ self.weights / total) if total > 0 else 0.0


def canonical_correlations(
    fit: FittingMoments, judged: PairMoments | None = None, *, components: int | None = None
) -> Canonical:
    """Return the singular values of S_xx^(−1/2) S_xy S_yy^(−1/2) on the numerical ranks.

    With ``components`` on the leading principal directions of each side only (SVCCA). With
    ``judged`` the directions are those of ``fit`` and the correlations those of other rows.

    Raises:
        InputError: Fewer than one component was asked for.
    """
    if components is not None and components < 1:
        raise InputError(f"SVCCA of {components} components was asked for; expected at least 1")
    left, right = fit.source.leading(components), fit.target.leading(components)
    spread = np.sqrt(np.outer(left.values, right.values))
    cross = (left.vectors.T @ fit.moments.sxy @ right.vectors) / spread
    if cross.size == 0:
        return Canonical(np.empty(0), np.empty(0))
    u, values, vt = np.linalg.svd(cross, full_matrices=False)
    # Canonical variables of unit norm: h = X V λ^(−1/2) u, so ⟨h_i, x_j⟩ = u_iᵀ λ^(1/2) (Vᵀ)_j.
    projections = (u.T * np.sqrt(left.values)) @ left.vectors.T
    weights = np.abs(projections).sum(axis=1)
    if judged is None:
        return Canonical(np.clip(values, 0.0, 1.0), weights)
    a = (left.vectors / np.sqrt(left.values)) @ u
    b = (right.vectors / np.sqrt(right.values)) @ vt.T
    return Canonical(_correlations(a, b, judged), weights)


def _correlations(
    a: Float[np.ndarray, "p k"], b: Float[np.ndarray, "q k"], moments: PairMoments
) -> Float[np.ndarray, " k"]:
    """Return the correlations of x·a_i with y·b_i; 0 where one does not vary."""
    cross = np.einsum("pk,pk->k", a, moments.sxy @ b)
    spread = np.einsum("pk,pk->k", a, moments.sxx @ a) * np.einsum("qk,qk->k", b, moments.syy @ b)
    roots = np.sqrt(np.maximum(spread, 0.0))
    found = np.divide(cross, roots, out=np.zeros_like(cross), where=roots > 0)
    return np.clip(found, -1.0, 1.0)


def standardised(moments: PairMoments) -> PairMoments:
    """Return the moments of the columns divided by their standard deviations.

    Constant columns become zero. Roeder et al. (2021) do so before their SVCCA.
    """
    scale_x = _inverse_root(np.diag(moments.sxx) / max(moments.n, 1))
    scale_y = _inverse_root(np.diag(moments.syy) / max(moments.n, 1))
    return PairMoments(
        n=moments.n,
        mean_x=moments.mean_x * scale_x,
        mean_y=moments.mean_y * scale_y,
        sxx=moments.sxx * np.outer(scale_x, scale_x),
        sxy=moments.sxy * np.outer(scale_x, scale_y),
        syy=moments.syy * np.outer(scale_y, scale_y),
        epsilon_x=moments.epsilon_x,
        epsilon_y=moments.epsilon_y,
    )


def _inverse_root(variances: Float[np.ndarray, " d"]) -> Float[np.ndarray, " d"]:
    roots = np.sqrt(np.maximum(variances, 0.0))
    return np.divide(1.0, roots, out=np.zeros_like(roots), where=roots > 0)
