"""Maps that learn nothing but means: what any other map has to beat."""

import numpy as np

from repalign.core.maps.affine import AffineMap, centred_map
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
