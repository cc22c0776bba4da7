"""Maps with a formula of a line: the mean, the identity, and the rigid map."""

import numpy as np

from repalign.core.maps.affine import AffineMap, centred_map
from repalign.core.maps.orthogonal import NearestOrthogonal, nearest_orthogonal
from repalign.core.moments import PairMoments
from repalign.exceptions import InputError


def fit_mean(moments: PairMoments) -> AffineMap:
    """Predict the mean of the target, whatever the source."""
    matrix = np.zeros((moments.source_dim, moments.target_dim))
    return AffineMap(kind="mean", matrix=matrix, shift=moments.mean_y)


def fit_identity(moments: PairMoments) -> AffineMap:
    """Predict the source row itself, moved from the source's mean to the target's.

    Raises:
        InputError: The widths differ.
    """
    if moments.source_dim != moments.target_dim:
        raise InputError(
            f"identity needs equal widths; the source has {moments.source_dim} columns and the "
            f"target {moments.target_dim}: leave this map out"
        )
    return centred_map("identity", np.eye(moments.source_dim), moments.mean_x, moments.mean_y)


def fit_rigid(
    moments: PairMoments, *, scale: bool = True, nearest: NearestOrthogonal | None = None
) -> AffineMap:
    """Fit the orthogonal map nearest to the target (orthogonal Procrustes, Schönemann 1966).

    With S_xy = U D Vᵀ the rotation is U Vᵀ, reflections allowed, and the scale tr D / tr S_xx
    (paper, A.7.2). Where the widths differ the narrower side is padded with zero columns: the
    thin decomposition gives exactly the columns of that padded solution that exist. Where the
    rows do not determine it, see ``nearest_orthogonal``, whose result may be given.
    """
    found = nearest or nearest_orthogonal(moments)
    factor = 1.0
    if scale:
        energy = float(np.trace(moments.sxx))
        factor = found.inner / energy if energy > 0 else 1.0
    kind = "rigid" if scale else "rigid-noscale"
    return centred_map(kind, factor * found.matrix, moments.mean_x, moments.mean_y)
