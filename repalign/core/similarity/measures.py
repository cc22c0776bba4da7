"""Similarity measures of two representations that follow from their moments.

Every measure says by its direction whether a higher or a lower value is closer.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from jaxtyping import Float

from repalign.core.moments import PairMoments
from repalign.core.whitening import PrincipalDirections, principal_directions
from repalign.exceptions import InputError

Direction = Literal["higher", "lower"]


@dataclass(frozen=True)
class Measure:
    """A measure by name.

    Attributes:
        name: As in tables.
        closer: Whether a higher or a lower value means closer.
        value: Function from moments to the value.
        is_symmetric: Both directions give the same value.
    """

    name: str
    closer: Direction
    value: Callable[[PairMoments], float]
    is_symmetric: bool


def cca_coefficients(moments: PairMoments) -> Float[np.ndarray, " k"]:
    """Return the canonical correlations, falling; k is the smaller numerical rank.

    The singular values of S_xx^(−1/2) S_xy S_yy^(−1/2) on the directions above rounding noise.
    """
    cross = _whitened_cross(moments)
    return np.clip(np.linalg.svd(cross, compute_uv=False), 0.0, 1.0)


def mean_cca(moments: PairMoments) -> float:
    """Return the mean canonical correlation (higher is closer)."""
    return _mean(cca_coefficients(moments))


def svcca(moments: PairMoments, *, components: int, standardise: bool = False) -> float:
    """Return the mean canonical correlation of the leading principal directions.

    Keeps min(components, rank) directions on each side. ``standardise`` divides every column by
    its standard deviation first, as Roeder et al. (2021) do; without it columns are centred only.
    Higher is closer.

    Raises:
        InputError: Fewer than one component was asked for.
    """
    if components < 1:
        raise InputError(f"SVCCA of {components} components was asked for; expected at least 1")
    chosen = standardised(moments) if standardise else moments
    cross = _whitened_cross(chosen, components=components)
    return _mean(np.clip(np.linalg.svd(cross, compute_uv=False), 0.0, 1.0))


def pwcca(moments: PairMoments) -> float:
    """Return the projection-weighted canonical correlation, weights from the source.

    Morcos et al. (2018), the published formula: weight α_i = Σ_j |⟨h_i, x_j⟩| for the i-th
    canonical variable h_i of the source and its centred columns x_j. Higher is closer.
    """
    source = _source_directions(moments)
    cross = _whitened_cross(moments)
    if cross.size == 0:
        return 0.0
    left, coefficients, _ = np.linalg.svd(cross, full_matrices=False)
    # Canonical variables of unit norm: h = X V λ^(−1/2) u, so ⟨h_i, x_j⟩ = u_iᵀ λ^(1/2) (Vᵀ)_j.
    projections = left.T @ (np.sqrt(source.values)[:, None] * source.vectors.T)
    weights = np.abs(projections).sum(axis=1)
    return float(np.clip(coefficients, 0.0, 1.0) @ weights / weights.sum())


def linear_cka(moments: PairMoments) -> float:
    """Return linear centred kernel alignment, biased (higher is closer).

    ‖S_xy‖² / (‖S_xx‖ ‖S_yy‖), Kornblith et al. (2019). It is near 1 on unrelated data with
    fewer rows than columns: see ``unbiased_linear_cka``.
    """
    denominator = np.linalg.norm(moments.sxx) * np.linalg.norm(moments.syy)
    return float(np.sum(moments.sxy**2) / denominator) if denominator > 0 else 0.0


def pooled_r_squared(moments: PairMoments) -> float:
    """Return the share of the target's variance that least squares explains (higher is closer).

    In-sample, pooled over columns: 1 − Σ‖residual‖² / Σ‖y − ȳ‖².
    """
    total = float(np.trace(moments.syy))
    if total <= 0:
        return 0.0
    return float(_explained(moments).sum() / total)


def mean_r_squared(moments: PairMoments) -> float:
    """Return the mean over target columns of the variance explained (higher is closer).

    Every column counts alike, whatever its variance; constant columns are left out.
    """
    total = np.diag(moments.syy)
    varies = total > 0
    if not varies.any():
        return 0.0
    return float(np.mean(_explained(moments)[varies] / total[varies]))


def procrustes_angle(moments: PairMoments) -> float:
    """Return the Procrustes angular distance in radians, 0 to π/2 (lower is closer).

    arccos(‖S_xy‖_* / √(tr S_xx · tr S_yy)), with the nuclear norm; sin² of it is the disparity of
    ``scipy.spatial.procrustes``. Widths may differ.
    """
    denominator = float(np.sqrt(np.trace(moments.sxx) * np.trace(moments.syy)))
    if denominator <= 0:
        return float(np.pi / 2)
    nuclear = float(np.linalg.svd(moments.sxy, compute_uv=False).sum())
    return float(np.arccos(np.clip(nuclear / denominator, -1.0, 1.0)))


MEASURES: dict[str, Measure] = {
    measure.name: measure
    for measure in (
        Measure("mean-cca", "higher", mean_cca, True),
        Measure("svcca-16", "higher", partial(svcca, components=16), True),
        Measure("pwcca", "higher", pwcca, False),
        Measure("linear-cka", "higher", linear_cka, True),
        Measure("pooled-r2", "higher", pooled_r_squared, False),
        Measure("mean-r2", "higher", mean_r_squared, False),
        Measure("procrustes-angle", "lower", procrustes_angle, True),
    )
}
"""Name → measure, for those that need nothing but the moments."""


def standardised(moments: PairMoments) -> PairMoments:
    """Return the moments of the columns divided by their standard deviations.

    Constant columns become zero.
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


def _mean(coefficients: Float[np.ndarray, " k"]) -> float:
    return float(coefficients.mean()) if coefficients.size else 0.0


def _explained(moments: PairMoments) -> Float[np.ndarray, " q"]:
    """Return the scatter of each target column that least squares explains."""
    source = _source_directions(moments)
    return np.sum((source.vectors.T @ moments.sxy) ** 2 / source.values[:, None], axis=0)


def _source_directions(moments: PairMoments, components: int | None = None) -> PrincipalDirections:
    return principal_directions(
        moments.sxx,
        mean=moments.mean_x,
        weight=float(moments.n),
        epsilon=moments.epsilon_x,
        max_rank=components,
    )


def _whitened_cross(
    moments: PairMoments, *, components: int | None = None
) -> Float[np.ndarray, "k l"]:
    left = _source_directions(moments, components)
    right = _source_directions(moments.swapped(), components)
    spread = np.sqrt(np.outer(left.values, right.values))
    return (left.vectors.T @ moments.sxy @ right.vectors) / spread
