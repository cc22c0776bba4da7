"""Signed permutation: the assignment of columns that needs no supervision but a matching."""

import functools
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float, Integer

from repalign.core.maps.affine import AffineMap, centred_map
from repalign.core.moments import PairMoments

# Sums of similarities that differ by less, relatively, are taken for equal.
_TIE = 2.0**-40
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
    similarity 0 has sign +1, so that the matching stays a signed permutation. A rule chooses
    among matchings that are equally good but for the rounding of sums: what has similarity 0
    is paired in the order in which it stands, and the rest keeps its number where it can.
    """
    from scipy.optimize import linear_sum_assignment  # a third of the start of a small comparison

    size = np.abs(similarity)
    source, target = linear_sum_assignment(size * _preference(*size.shape), maximize=True)
    order = np.argsort(target, kind="stable")
    source, target = source[order], target[order]
    none = size[source, target] == 0
    source[none] = np.sort(source[none])
    chosen = similarity[source, target]
    return SignedMatching(
        source=source,
        target=target,
        sign=np.where(chosen < 0, -1.0, 1.0),
        value=np.abs(chosen),
    )


@functools.lru_cache(maxsize=1)
def _preference(p: int, q: int) -> Float[np.ndarray, "p q"]:
    """Return factors of nearly one, more than rounding apart, largest for pairs of one number.

    The others are without a pattern, since a pattern would leave several matchings as good.
    """
    rows, columns = np.ogrid[1.0 : p + 1, 1.0 : q + 1]
    wish = (rows * columns**2 * np.sqrt(2)) % 1 / 2
    wish[np.arange(min(p, q)), np.arange(min(p, q))] = 1
    return 1 + _TIE * wish


def match_columns(moments: PairMoments, cost: AssignmentCost = "inner-product") -> SignedMatching:
    """Return the Hungarian assignment of columns.

    With cost ``inner-product`` it maximises Σ|S_xy| over the matched pairs, which minimises the
    squared error over all signed permutations (paper, A.7.2). ``correlation`` matches columns by
    |correlation| instead.
    """
    correlation = _correlation(moments)
    is_related = np.abs(correlation) > _TIE
    return match_signed(
        np.where(is_related, correlation if cost == "correlation" else moments.sxy, 0.0)
    )


def fit_permutation(
    moments: PairMoments, matching: SignedMatching, *, scale: bool = False
) -> AffineMap:
    """Return the map that matched columns make: a signed permutation.

    With ``scale`` one global factor s = Σ|S_xy| / ΣS_xx over the matched pairs is fitted after
    the assignment. Where the widths differ, min(p, q) columns are matched and the other target
    columns predicted by their mean.
    """
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
    """Return the correlation of all columns; 0 for those that are constant but for rounding."""
    norms = np.outer(
        _norms(moments, moments.sxx, moments.mean_x), _norms(moments, moments.syy, moments.mean_y)
    )
    return np.divide(moments.sxy, norms, out=np.zeros_like(norms), where=norms > 0)


def _norms(
    moments: PairMoments, scatter: Float[np.ndarray, "d d"], mean: Float[np.ndarray, " d"]
) -> Float[np.ndarray, " d"]:
    # what is left of a column that varies in the rows taken away alone may be below zero
    norms = np.sqrt(np.maximum(np.diag(scatter), 0.0))
    norms[norms <= _TIE * np.sqrt(moments.n) * np.abs(mean)] = 0
    return norms
