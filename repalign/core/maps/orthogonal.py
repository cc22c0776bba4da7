"""The orthogonal matrix nearest to cross products, and a rule where several are as near."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from repalign.core.moments import DOUBLE_EPSILON, PairMoments

# Cosines below this are taken for none: they are known to half of the digits.
_NO_COSINE = 1e-8


@dataclass(frozen=True, eq=False)
class NearestOrthogonal:
    """The orthogonal map of largest ⟨Q, S_xy⟩.

    Attributes:
        matrix: Q, p×q; where the widths differ, the rows and columns that exist of the map
            between spaces padded with zero columns.
        inner: ⟨Q, S_xy⟩, the sum of the singular values.
        free: Orthonormal source directions, p×m, whose images the rows do not determine; m is
            0 where Q is the only one of its kind.
    """

    matrix: Float[np.ndarray, "p q"]
    inner: float
    free: Float[np.ndarray, "p m"]


def nearest_orthogonal(moments: PairMoments) -> NearestOrthogonal:
    """Return U Vᵀ of S_xy = U D Vᵀ, completed by the identity where singular values are zero.

    A singular value is zero where it is at most 4·max(p, q)·2⁻⁵²·√(‖S_xx‖‖S_yy‖), which is what
    the order of summation may make of none. Its two directions are then any that are orthogonal
    to the others, and every orthogonal map between the two spaces left over is as near; the
    decomposition picks one by rounding. Taken is that nearest to leaving columns as they are.
    """
    left, values, right = np.linalg.svd(moments.sxy, full_matrices=False)
    size = np.sqrt(np.linalg.norm(moments.sxx) * np.linalg.norm(moments.syy))
    rank = int(np.sum(values > 4 * max(moments.sxy.shape) * DOUBLE_EPSILON * size))
    inner = float(values.sum())
    if rank == len(values):
        return NearestOrthogonal(left @ right, inner, np.zeros((len(left), 0)))
    known = left[:, :rank], right[:rank].T
    matrix = known[0] @ known[1].T + _completion(*known)
    return NearestOrthogonal(matrix, inner, _complement(known[0]))


def _completion(
    source: Float[np.ndarray, "p k"], target: Float[np.ndarray, "q k"]
) -> Float[np.ndarray, "p q"]:
    """Return the isometry between what both sides leave over that is nearest to the identity.

    With bases N_x and N_y it is N_x W N_yᵀ with the W nearest to N_xᵀ N_y, whatever the bases.
    Directions that are orthogonal to all of the other side, as of columns that are constant in
    one space each, are no nearer to any; those follow a matrix that is fixed.
    """
    p, q = len(source), len(target)
    matrix = np.zeros((p, q))
    for reference in (np.eye(p, q), np.random.default_rng(0).standard_normal((p, q))):
        rest = _complement(source), _complement(target)
        left, cosines, right = np.linalg.svd(rest[0].T @ reference @ rest[1], full_matrices=False)
        near = cosines > _NO_COSINE
        added = rest[0] @ left[:, near], rest[1] @ right[near].T
        matrix += added[0] @ added[1].T
        source, target = np.hstack((source, added[0])), np.hstack((target, added[1]))
        if source.shape[1] == min(p, q):
            break
    return matrix


def _complement(directions: Float[np.ndarray, "d k"]) -> Float[np.ndarray, "d m"]:
    """Return an orthonormal basis of what is orthogonal to orthonormal directions."""
    rank = directions.shape[1]
    return np.linalg.qr(directions, mode="complete")[0][:, rank:]
