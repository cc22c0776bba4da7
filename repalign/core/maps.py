"""The maps between two representations: the list of kinds, and how each is fitted.

Settings, help, tables, documents and tests follow from the list. Every map is affine and is fitted
from the moments of a pair; those of ICA also from the components of both sides, which were found
without looking at the other.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Unpack

import numpy as np
from jaxtyping import Float

from repalign.aliases import Rows
from repalign.core.affine import AffineMap, MappedRows, centred_map
from repalign.core.ica.components import IcaFit, match_components
from repalign.core.linalg import (
    TIE,
    PrincipalDirections,
    SignedMatching,
    arithmetic_cut,
    eigh,
    eigvalsh,
    match_signed,
    principal_directions,
    storage_cut,
)
from repalign.core.moments import DOUBLE_EPSILON, PairMoments, pair_moments
from repalign.core.rows import Limits
from repalign.exceptions import InputError

AssignmentCost = Literal["inner-product", "correlation"]


@dataclass(frozen=True)
class MapKind:
    """One kind of map from a source to a target representation.

    Attributes:
        name: As it is asked for and recorded.
        heading: Of its column in tables; the arrow says which way is better.
        means: In one line, what the map may do.
        is_supervised: It is fitted to the pairing of rows (the paper's word for such maps).
        is_paired: Its error depends on which rows are paired, so that shuffling can test it.
        needs_ica: It is made from the ICA of both sides.
        needs_equal_widths: It is not defined between spaces of different widths.
        in_components: Its error lives in the space of the target's components.
        in_paper: The paper's Table 1 shows it.
    """

    name: str
    heading: str
    means: str
    is_supervised: bool = False
    is_paired: bool = True
    needs_ica: bool = False
    needs_equal_widths: bool = False
    in_components: bool = False
    in_paper: bool = False


MAP_KINDS = (
    MapKind(
        "mean",
        "Mean ↓",
        "predict the mean of the target",
        is_paired=False,
    ),
    MapKind(
        "identity",
        "Identity ↓",
        "leave rows as they are, moved",
        needs_equal_widths=True,
    ),
    MapKind(
        "permutation",
        "Permutation ↓",
        "match columns one to one, with signs",
        in_paper=True,
    ),
    MapKind(
        "permutation+scale",
        "Perm.+scale ↓",
        "the same, times one number",
    ),
    MapKind(
        "rigid-noscale",
        "No scale ↓",
        "rotate or reflect",
        is_supervised=True,
    ),
    MapKind(
        "rigid",
        "Rigid ↓",
        "the same, times one number",
        is_supervised=True,
        in_paper=True,
    ),
    MapKind(
        "linear",
        "Linear ↓",
        "any linear map",
        is_supervised=True,
        in_paper=True,
    ),
    MapKind(
        "ica",
        "ICA ↓",
        "match independent components",
        needs_ica=True,
        in_paper=True,
    ),
    MapKind(
        "ica+scale",
        "ICA+scale ↓",
        "the same, times one number",
        needs_ica=True,
    ),
    MapKind(
        "ica-components",
        "ICA comp. ↓",
        "the same, judged between components of unit variance",
        needs_ica=True,
        in_components=True,
    ),
)
"""Every kind of map, in the order of the columns of a table."""

KIND_OF = {kind.name: kind for kind in MAP_KINDS}
ALL_MAPS = tuple(KIND_OF)
ICA_MAPS = tuple(kind.name for kind in MAP_KINDS if kind.needs_ica)
PAPER_MAPS = tuple(kind.name for kind in MAP_KINDS if kind.in_paper)
DEFAULT_MAPS = ("mean", "permutation", "permutation+scale", "rigid", "linear", "ica")
"""Those of the paper, its permutation also with the scale that rigid and ICA maps have."""


IcaPair = tuple[IcaFit, IcaFit]
"""The ICA of source and target, each fitted without looking at the other."""


@dataclass(frozen=True, eq=False)
class FittedMap:
    """A fitted map, and the space in which its error lives: the target's unless said.

    ``free`` are source directions, p×m, whose images the rows did not determine, so that a
    convention did; None where the kind of map has none.
    """

    map: AffineMap
    target_space: AffineMap | None = None
    free: Float[np.ndarray, "p m"] | None = None


@dataclass(frozen=True, eq=False)
class PairMaps:
    """Fitted maps by name, and how the ICA components matched where there is ICA."""

    by_name: dict[str, FittedMap]
    matching: SignedMatching | None


def fit_maps(
    names: Sequence[str],
    moments: PairMoments,
    ica: IcaPair | None = None,
    cost: AssignmentCost = "inner-product",
) -> PairMaps:
    """Fit the named maps.

    Args:
        names: Of the maps.
        moments: Of the rows that fit.
        ica: Of both sides, where maps need it.
        cost: What the assignment of columns maximises.

    Raises:
        InputError: An unknown kind, a missing ICA, no rows, or widths that do not suit the kind.
    """
    for name in names:
        if name not in KIND_OF:
            raise InputError(f"map {name!r} is unknown; expected one of: {', '.join(ALL_MAPS)}")
    if moments.n < 1:
        raise InputError("a map cannot be fitted on no rows; expected at least one")
    if ica is None and any(KIND_OF[name].needs_ica for name in names):
        raise InputError("an ICA map needs the ICA of both sides; fit it first, or leave it out")
    # what several of the maps share is computed once
    permutes = any(name.startswith("permutation") for name in names)
    rotates = any(name.startswith("rigid") for name in names)
    columns = match_columns(moments, cost) if permutes else None
    nearest = nearest_orthogonal(moments) if rotates else None
    matching = None if ica is None else match_components(moments, *ica)
    fitted: dict[str, FittedMap] = {}
    for name in names:
        match name:
            case "mean":
                fitted[name] = FittedMap(fit_mean(moments))
            case "identity":
                fitted[name] = FittedMap(fit_identity(moments))
            case "permutation" | "permutation+scale":
                assert columns is not None
                scale = name == "permutation+scale"
                fitted[name] = FittedMap(fit_permutation(moments, columns, scale=scale))
            case "rigid" | "rigid-noscale":
                assert nearest is not None
                rigid = fit_rigid(moments, scale=name == "rigid", nearest=nearest)
                fitted[name] = FittedMap(rigid, free=nearest.free)
            case "linear":
                fitted[name] = FittedMap(fit_linear(moments))
            case "ica" | "ica+scale" | "ica-components":
                assert ica is not None
                assert matching is not None
                fitted[name] = fit_ica_map(name, moments, ica, matching)
    return PairMaps(fitted, matching)


def fit_ica_map(
    name: str, moments: PairMoments, ica: IcaPair, matching: SignedMatching
) -> FittedMap:
    """Fit a map between matched components, in the target's space or in that of components."""
    if name == "ica-components":
        onto = matched_components_map(moments, *ica, matching)
        return FittedMap(onto, target_space=ica[1].to_components())
    return FittedMap(ica_map(moments, *ica, matching, scale=name == "ica+scale"))


def fit_map(name: str, moments: PairMoments, ica: IcaPair | None = None) -> AffineMap:
    """Fit one map, by the default conventions.

    Raises:
        InputError: As ``fit_maps``.
    """
    return fit_maps([name], moments, ica).by_name[name].map


# The mean and the identity


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


# Signed permutations


def match_columns(moments: PairMoments, cost: AssignmentCost = "inner-product") -> SignedMatching:
    """Return the Hungarian assignment of columns.

    With cost ``inner-product`` it maximises Σ|S_xy| over the matched pairs, which minimises the
    squared error over all signed permutations (paper, A.7.2). ``correlation`` matches columns by
    |correlation| instead.
    """
    correlation = _correlation(moments)
    is_related = np.abs(correlation) > TIE
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
    norms[norms <= TIE * np.sqrt(moments.n) * np.abs(mean)] = 0
    return norms


# The nearest orthogonal matrix

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
    one space each, are equally near to all others; those follow a fixed matrix.
    """
    p, q = len(source), len(target)
    matrix = np.zeros((p, q))
    for reference in (np.eye(p, q), np.random.default_rng(0).standard_normal((p, q))):
        free_x, free_y = _complement(source), _complement(target)
        left, cosines, right = np.linalg.svd(free_x.T @ reference @ free_y, full_matrices=False)
        near = cosines > _NO_COSINE
        added = free_x @ left[:, near], free_y @ right[near].T
        matrix += added[0] @ added[1].T
        source, target = np.hstack((source, added[0])), np.hstack((target, added[1]))
        if source.shape[1] == min(p, q):
            break
    return matrix


def _complement(directions: Float[np.ndarray, "d k"]) -> Float[np.ndarray, "d m"]:
    """Return an orthonormal basis of what is orthogonal to orthonormal directions."""
    rank = directions.shape[1]
    return np.linalg.qr(directions, mode="complete")[0][:, rank:]


def fit_rigid(
    moments: PairMoments, *, scale: bool = True, nearest: NearestOrthogonal | None = None
) -> AffineMap:
    """Fit the orthogonal map nearest to the target (orthogonal Procrustes, Schönemann 1966).

    With S_xy = U D Vᵀ the rotation is U Vᵀ, reflections allowed, and the scale tr D / tr S_xx
    (paper, A.7.2). Where the widths differ the narrower side is padded with zero columns: the
    thin decomposition gives exactly the columns of that padded solution that exist. Where the
    rows do not determine it, see ``nearest_orthogonal``, whose result may be given.
    """
    rotation = nearest or nearest_orthogonal(moments)
    factor = 1.0
    if scale:
        energy = float(np.trace(moments.sxx))
        factor = rotation.inner / energy if energy > 0 else 1.0
    kind = "rigid" if scale else "rigid-noscale"
    return centred_map(kind, factor * rotation.matrix, moments.mean_x, moments.mean_y)


# Least squares

# Beyond this ratio of eigenvalues (condition number 1e5) the moments have lost more than six
# of the sixteen digits.
_RESOLVED = 1e-10


def fit_linear(moments: PairMoments) -> AffineMap:
    """Fit least squares with intercept from the moments alone.

    Of all minimisers the one of least norm: M = Σ_i v_i v_iᵀ S_xy / λ_i over the eigenvectors
    of S_xx whose λ_i is above rounding noise (``core/linalg.py``), so that columns of
    rounding noise are not fitted. The relative error of the predictions is about cond²·2⁻⁵²;
    for data in double precision beyond condition 1e5 see ``fit_linear_from_rows``.
    """
    return centred_map("linear", _solve(moments), moments.mean_x, moments.mean_y)


def is_ill_conditioned(moments: PairMoments) -> bool:
    """Return whether the rows hold directions that the moments cannot resolve.

    Only rows in double precision do: what single precision stores is resolved by moments in
    double precision.
    """
    values = eigvalsh(moments.sxx)
    largest = float(values[-1])
    finest = storage_cut(moments.sxx, moments.mean_x, float(moments.n), moments.epsilon_x)
    resolution = arithmetic_cut(len(values), largest)
    return bool(100 * finest < resolution and values[0] < _RESOLVED * largest)


def fit_linear_from_rows(
    x: Rows,
    y: Rows,
    moments: PairMoments,
    **limits: Unpack[Limits],
) -> AffineMap:
    """Fit least squares as accurately as an orthogonal decomposition of the rows would.

    Where ``is_ill_conditioned`` the rows are read once more, whitened by the first moments: in
    these coordinates the resolved directions have condition one, and those that were lost are
    magnified until they are resolved. Good to condition numbers of about 1e12. Elsewhere it is
    ``fit_linear`` and no row is read.

    Raises:
        InputError: The rows do not pair or a value is not finite.
    """
    if not is_ill_conditioned(moments):
        return fit_linear(moments)
    values, vectors = eigh(moments.sxx)
    floor = arithmetic_cut(len(values), float(values[-1]))
    spread = np.sqrt(np.maximum(values, floor))
    basis = vectors / spread
    whiten = centred_map("whitening", basis, moments.mean_x, np.zeros(len(values)))
    (again,) = pair_moments(
        MappedRows(x, whiten),
        y,
        **limits,
    )
    matrix = basis @ _solve(again)
    resolved = _resolved(again).vectors
    if resolved.shape[1] < len(values):
        # Rounding along the lost directions was magnified too. The solution of least norm lies
        # in the row space, which the inverse of the basis brings back from the kept directions.
        row_space = np.linalg.qr((vectors * spread) @ resolved)[0]
        matrix = row_space @ (row_space.T @ matrix)
    return centred_map("linear", matrix, moments.mean_x, moments.mean_y)


def _solve(moments: PairMoments) -> Float[np.ndarray, "p q"]:
    resolved = _resolved(moments)
    return resolved.vectors @ ((resolved.vectors.T @ moments.sxy) / resolved.values[:, None])


def _resolved(moments: PairMoments) -> PrincipalDirections:
    return principal_directions(
        moments.sxx, mean=moments.mean_x, weight=float(moments.n), epsilon=moments.epsilon_x
    )


# Matched components


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
