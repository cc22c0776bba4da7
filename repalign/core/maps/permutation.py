"""Signed permutation: the assignment of columns that needs no supervision but a matching."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float, Integer
from scipy.optimize import linear_sum_assignment

from repalign.core.maps.affine import AffineMap, centred_map
from repalign.core.moments import PairMoments

AssignmentCost = Literal["inner-product", "correlation"]


@dataclass(frozen=True, eq=False)
class SignedMatching:
    """Pairs of a source and a target column, each with a sign.

    Attributes:
        source: Matched source columns, in the order of ``target``.
        target: Matched target columns, increasing.
        sign: −1 or +1 for each pair.
        value: The magnitude that was summed by the assignment, for each pair.
    """

    source: Integer[np.ndarray, " k"]
    target: Integer[np.ndarray, " k"]
    sign: Float[np.ndarray, " k"]
    value: Float[np.ndarray, " k"]


def match_signed(similarity: Float[np.ndarray, "p q"]) -> SignedMatching:
    """Return the one-to-one matching of rows to columns that maximises Σ|similarity|.

    Where the widths differ, min(p, q) pairs are made and the rest is left unmatched. A pair of
    similarity 0 has sign +1, so that the matching stays a signed permutation.
    """
    source, target = linear_sum_assignment(np.abs(similarity), maximize=True)
    order = np.argsort(target, kind="stable")
    source, target = source[order], target[order]
    chosen = similarity[source, target]
    return SignedMatching(
        source=source,
        target=target,
        sign=np.where(chosen < 0, -1.0, 1.0),
        value=np.abs(chosen),
    )


def fit_permutation(
    moments: PairMoments, *, scale: bool = False, cost: AssignmentCost = "inner-product"
) -> AffineMap:
    """Fit the signed permutation of columns nearest to the target.

    With cost ``inner-product`` the Hungarian assignment maximises Σ|S_xy| over the matched
    pairs, which minimises the squared error over all signed permutations (paper, A.7.2).
    ``correlation`` matches columns by |correlation| instead. With ``scale`` one global factor
    s = Σ|S_xy| / ΣS_xx over the matched pairs is fitted after the assignment. Where the widths
    differ, min(p, q) columns are matched and the other target columns predicted by their mean.
    """
    similarity = moments.sxy
    if cost == "correlation":
        similarity = _correlation(moments)
    matching = match_signed(similarity)
    signed = moments.sxy[matching.source, matching.target] * matching.sign
    factor = 1.0
    if scale:
        energy = float(np.diag(moments.sxx)[matching.source].sum())
        factor = float(signed.sum()) / energy if energy > 0 else 1.0
    matrix = np.zeros_like(moments.sxy)
    matrix[matching.source, matching.target] = factor * matching.sign
    kind = "permutation+scale" if scale else "permutation"
    return centred_map(kind, matrix, moments.mean_x, moments.mean_y)


def _correlation(moments: PairMoments) -> Float[np.ndarray, "p q"]:
    norms = np.sqrt(np.outer(np.diag(moments.sxx), np.diag(moments.syy)))
    return np.divide(moments.sxy, norms, out=np.zeros_like(norms), where=norms > 0)
