"""The measures of similarity: what each computes, and the list that everything else follows from.

Settings, help, tables, records, documents and tests follow from the list at the end. A measure is
computed from rows that fit (directions, a matching, a regression) and rows that judge, by their
moments where these are enough.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from math import pi
from typing import Literal

import numpy as np
from jaxtyping import Float

from repalign.core.linalg import PrincipalDirections, match_signed, principal_directions
from repalign.core.moments import PairMoments
from repalign.core.neighbours import HeldRows
from repalign.core.resampling.intervals import SIGNED, UNIT, Range
from repalign.exceptions import InputError

# What measures are computed from


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
        vectors, values = self.directions.vectors, self.directions.values
        return replace(self.directions, vectors=vectors[:, :components], values=values[:components])


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
class Evidence:
    """Rows that fit and rows that judge; in-sample both are the same.

    Attributes:
        fit: Moments of the rows that fit.
        judged: Moments of other rows that judge; None where the same rows do.
        rows: The rows that judge, where the measure reads rows.
        fit_rows: The rows that fit, where it reads rows; those that judge unless said.
    """

    fit: FittingMoments
    judged: PairMoments | None = None
    rows: HeldRows | None = None
    fit_rows: HeldRows | None = None

    @property
    def moments(self) -> PairMoments:
        """Moments of the rows that judge."""
        return self.fit.moments if self.judged is None else self.judged

    @property
    def held(self) -> HeldRows:
        """The rows that judge, of a measure that reads rows."""
        assert self.rows is not None
        return self.rows


# Canonical correlations: of all directions, of the leading ones, and weighted


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
    correlation = np.divide(cross, roots, out=np.zeros_like(cross), where=roots > 0)
    return np.clip(correlation, -1.0, 1.0)


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


# Kernel alignment

# Fewer rows than this have no unbiased estimate.
FEWEST_UNBIASED = 4


def linear_cka(moments: PairMoments) -> float:
    """Return linear centred kernel alignment, biased (higher is closer).

    ‖S_xy‖² / (‖S_xx‖ ‖S_yy‖), Kornblith et al. (2019). It is near 1 on unrelated data with
    fewer rows than columns: see ``unbiased_linear_cka``.
    """
    denominator = np.linalg.norm(moments.sxx) * np.linalg.norm(moments.syy)
    return float(np.sum(moments.sxy**2) / denominator) if denominator > 0 else 0.0


def unbiased_linear_cka(
    moments: PairMoments,
    radii_x: Float[np.ndarray, " n"],
    radii_y: Float[np.ndarray, " n"],
) -> float:
    """Return linear CKA from the unbiased estimator of HSIC (higher is closer).

    Song et al. (2012), for linear kernels of centred rows with k_i = ‖x_i‖², l_i = ‖y_i‖²:
    HSIC ∝ ‖S_xy‖² − n/(n−2)·Σ k_i l_i + Σk_i·Σl_i / ((n−1)(n−2)). It is about 0 for unrelated
    rows however few there are, and can be negative. ``radii_x`` and ``radii_y`` are k and l, about
    the means of the moments. 0 where one side does not vary.

    Raises:
        InputError: There are fewer than four rows, or not as many radii as rows.
    """
    n = moments.n
    if n < FEWEST_UNBIASED:
        raise InputError(f"unbiased CKA of {n} rows was asked for; expected at least 4 rows")
    if radii_x.shape != (n,) or radii_y.shape != (n,):
        raise InputError(
            f"{radii_x.shape[0]} and {radii_y.shape[0]} radii were given for {n} rows; "
            "expected one for each row of the moments"
        )

    def hsic(
        cross: Float[np.ndarray, "a b"], k: Float[np.ndarray, " n"], other: Float[np.ndarray, " n"]
    ) -> float:
        inner = float(np.sum(cross**2)) - n / (n - 2) * float(k @ other)
        return inner + float(k.sum() * other.sum()) / ((n - 1) * (n - 2))

    product = hsic(moments.sxx, radii_x, radii_x) * hsic(moments.syy, radii_y, radii_y)
    return hsic(moments.sxy, radii_x, radii_y) / float(np.sqrt(product)) if product > 0 else 0.0


def unbiased_cka_of_rows(moments: PairMoments, rows: HeldRows) -> float:
    """Return unbiased linear CKA; NaN of too few rows."""
    if rows.n < FEWEST_UNBIASED:
        return float("nan")
    return unbiased_linear_cka(moments, rows.source.radii, rows.target.radii)


# Variance explained


@dataclass(frozen=True, eq=False)
class Explained:
    """What least squares leaves of each target column.

    Attributes:
        residual: Σ of squared residuals.
        total: Σ of squared deviations from the mean of the rows that judge.
    """

    residual: Float[np.ndarray, " q"]
    total: Float[np.ndarray, " q"]

    @property
    def pooled(self) -> float:
        """1 − Σ‖residual‖² / Σ‖y − ȳ‖²; 0 where the target does not vary."""
        total = float(self.total.sum())
        return 1.0 - float(self.residual.sum()) / total if total > 0 else 0.0

    @property
    def mean(self) -> float:
        """Mean over target columns of the share explained; constant columns are left out."""
        varies = self.total > 0
        if not varies.any():
            return 0.0
        return float(np.mean(1.0 - self.residual[varies] / self.total[varies]))


def least_squares(fit: FittingMoments, judged: PairMoments | None = None) -> Explained:
    """Return what the linear map of some rows explains of these, or of other rows.

    It is below zero on other rows where the map is worse there than their own mean.
    """
    source = fit.source.directions
    projected = source.vectors.T @ fit.moments.sxy
    if judged is None:
        total = np.diag(fit.moments.syy)
        explained = np.sum(projected**2 / source.values[:, None], axis=0)
        return Explained(total - explained, total)
    matrix = source.vectors @ (projected / source.values[:, None])
    offset = judged.mean_y - fit.moments.mean_y - (judged.mean_x - fit.moments.mean_x) @ matrix
    total = np.diag(judged.syy)
    residual = (
        total
        - 2 * np.einsum("pq,pq->q", matrix, judged.sxy)
        + np.einsum("pq,pq->q", matrix, judged.sxx @ matrix)
        + judged.n * offset**2
    )
    return Explained(residual, total)


# Angle after the best rotation


def procrustes_angle(fit: PairMoments, judged: PairMoments | None = None) -> float:
    """Return the Procrustes angular distance in radians, 0 to π (lower is closer).

    arccos(‖S_xy‖_* / √(tr S_xx · tr S_yy)), with the nuclear norm, at most π/2; sin² of it is the
    disparity of ``scipy.spatial.procrustes``. On other rows the rotation stays. Widths may differ.
    """
    u, values, vt = np.linalg.svd(fit.sxy, full_matrices=False)
    other = fit if judged is None else judged
    denominator = float(np.sqrt(np.trace(other.sxx) * np.trace(other.syy)))
    if denominator <= 0:
        return float(np.pi / 2)
    inner = float(values.sum() if judged is None else np.sum((u @ vt) * judged.sxy))
    return float(np.arccos(np.clip(inner / denominator, -1.0, 1.0)))


# Columns matched one to one


def matched_correlation(fit: PairMoments, judged: PairMoments | None = None) -> float:
    """Return the MCC: the mean correlation of columns matched one to one, with signs.

    The Hungarian assignment maximises Σ|correlation| over min(p, q) pairs of columns of the rows
    that fit; on other rows matching and signs stay. A constant column correlates with nothing: 0.
    """
    matching = match_signed(correlations(fit))
    other = fit if judged is None else judged
    correlation = correlations(other)[matching.source, matching.target] * matching.sign
    return float(correlation.mean())


def matched_rank_correlation(rows: Evidence) -> float:
    """Return the same of the ranks of the values in their columns."""
    judged = rows.held.rank_moments()
    if rows.fit_rows is None:
        return matched_correlation(judged)
    return matched_correlation(rows.fit_rows.rank_moments(), judged)


def correlations(moments: PairMoments) -> Float[np.ndarray, "p q"]:
    """Return the correlation of every source with every target column, 0 of a constant one."""
    norms = np.sqrt(np.outer(_varying(moments.sxx), _varying(moments.syy)))
    correlation = np.divide(moments.sxy, norms, out=np.zeros_like(moments.sxy), where=norms > 0)
    return np.clip(correlation, -1.0, 1.0)


def _varying(scatter: Float[np.ndarray, "d d"]) -> Float[np.ndarray, " d"]:
    return np.maximum(np.diag(scatter), 0.0)


# The list

Better = Literal["↑", "↓"]
Change = Literal["translation", "scale", "rotation", "signed permutation", "column scale", "linear"]
# Moments alone; rows; the distances of all pairs of rows; all of these at once, for their ranks.
Reads = Literal["moments", "rows", "distances", "distance ranks"]

RIGID: tuple[Change, ...] = ("translation", "scale", "rotation", "signed permutation")
COLUMNS: tuple[Change, ...] = ("translation", "scale", "signed permutation", "column scale")
LINEAR: tuple[Change, ...] = (*RIGID, "column scale", "linear")
CHANGES: tuple[Change, ...] = LINEAR
"""What can be done to one side alone; each measure says which of these leave it as it is."""


@dataclass(frozen=True)
class Measure:
    """One measure of how similar two representations are.

    Attributes:
        name: As it is asked for; with ``size`` a number may follow, as in ``svcca-16``.
        title: For headings.
        better: Whether higher (↑) or lower (↓) is closer.
        means: What it is, in a line.
        compute: Makes the value from rows that fit and rows that judge, and the size.
        source: What may be done to the source without changing the value.
        target: The same of the target; the source's unless said.
        reads: What it needs.
        is_symmetric: Both directions give the same value in-sample.
        fits: It fits something to the pairing, which held out is judged on other rows.
        size: How many directions or neighbours are taken unless the name says it; None
            for measures without such a number.
        within: The values that it can take in-sample.
        held_out_within: Those on rows that fitted nothing; as in-sample unless said.
        has_in_sample_interval: Intervals by half-samples hold their claim.
    """

    name: str
    title: str
    better: Better
    means: str
    compute: Callable[[Evidence, int], float]
    source: tuple[Change, ...]
    target: tuple[Change, ...] | None = None
    reads: Reads = "moments"
    is_symmetric: bool = True
    fits: bool = False
    size: int | None = None
    within: Range = UNIT
    held_out_within: Range | None = None
    has_in_sample_interval: bool = True

    def __reduce__(self) -> "tuple[Callable[[str], Measure], tuple[str]]":
        return measure_called, (self.name,)  # sent to other processes by name

    def range_in(self, split: str) -> Range:
        """Return the values that it can take in a split."""
        is_other = split != "in-sample" and self.held_out_within is not None
        return self.held_out_within if is_other else self.within  # type: ignore[return-value]

    @property
    def heading(self) -> str:
        """The title with its direction, for tables."""
        return f"{self.title} {self.better}"

    def value(self, evidence: Evidence) -> float:
        """Return the value; NaN where these rows are too few to define it."""
        return self.compute(evidence, self.size or 1)

    @property
    def target_changes(self) -> tuple[Change, ...]:
        """What may be done to the target without changing the value."""
        return self.source if self.target is None else self.target

    @property
    def sign(self) -> float:
        """1 where higher is closer, −1 where lower is."""
        return 1.0 if self.better == "↑" else -1.0


MEASURES = (
    Measure(
        "mean-cca",
        "CCA",
        "↑",
        "mean canonical correlation",
        lambda rows, _: canonical_correlations(rows.fit, rows.judged).mean,
        LINEAR,
        fits=True,
        held_out_within=SIGNED,
    ),
    Measure(
        "svcca",
        "SVCCA",
        "↑",
        "mean canonical correlation of the leading principal directions",
        lambda rows, size: canonical_correlations(rows.fit, rows.judged, components=size).mean,
        RIGID,
        fits=True,
        size=20,
        held_out_within=SIGNED,
        # the leading directions differ between half-samples: held in .84 to .92 (calibration.md)
        has_in_sample_interval=False,
    ),
    Measure(
        "pwcca",
        "PWCCA",
        "↑",
        "canonical correlations weighted by what they explain of the source",
        lambda rows, _: canonical_correlations(rows.fit, rows.judged).projection_weighted,
        ("translation", "scale", "signed permutation"),
        LINEAR,
        is_symmetric=False,
        fits=True,
        held_out_within=SIGNED,
    ),
    Measure(
        "linear-cka",
        "CKA",
        "↑",
        "linear centred kernel alignment, biased upwards for few rows",
        lambda rows, _: linear_cka(rows.moments),
        RIGID,
    ),
    Measure(
        "unbiased-cka",
        "CKA unb.",
        "↑",
        "the same with the unbiased estimator: about 0 of unrelated rows, however few",
        lambda rows, _: unbiased_cka_of_rows(rows.moments, rows.held),
        RIGID,
        reads="rows",
        within=SIGNED,
    ),
    Measure(
        "pooled-r2",
        "R² pooled",
        "↑",
        "share of the target's variance that least squares explains",
        lambda rows, _: least_squares(rows.fit, rows.judged).pooled,
        LINEAR,
        RIGID,
        is_symmetric=False,
        fits=True,
        held_out_within=Range(high=1.0),
    ),
    Measure(
        "mean-r2",
        "R² mean",
        "↑",
        "the same for each target column, and the mean of these",
        lambda rows, _: least_squares(rows.fit, rows.judged).mean,
        LINEAR,
        COLUMNS,
        is_symmetric=False,
        fits=True,
        held_out_within=Range(high=1.0),
    ),
    Measure(
        "mutual-knn",
        "k-NN",
        "↑",
        "mean share of a row's nearest neighbours that both sides have in common",
        lambda rows, size: rows.held.mutual_neighbours(size),
        RIGID,
        reads="rows",
        size=10,
    ),
    Measure(
        "rsa-pearson",
        "RSA r",
        "↑",
        "correlation of the distances between rows on both sides",
        lambda rows, _: rows.held.distance_correlation("pearson"),
        RIGID,
        reads="distances",
        within=SIGNED,
    ),
    Measure(
        "rsa-spearman",
        "RSA ρ",
        "↑",
        "rank correlation of the distances between rows on both sides",
        lambda rows, _: rows.held.distance_correlation("spearman"),
        RIGID,
        reads="distance ranks",
        within=SIGNED,
    ),
    Measure(
        "procrustes-angle",
        "Angle",
        "↓",
        "angle between the two, in radians, after the best rotation",
        lambda rows, _: procrustes_angle(rows.fit.moments, rows.judged),
        RIGID,
        fits=True,
        within=Range(0.0, pi / 2),
        held_out_within=Range(0.0, pi),
    ),
    Measure(
        "mcc-pearson",
        "MCC r",
        "↑",
        "mean correlation of columns matched one to one, with signs",
        lambda rows, _: matched_correlation(rows.fit.moments, rows.judged),
        COLUMNS,
        fits=True,
        held_out_within=SIGNED,
    ),
    Measure(
        "mcc-spearman",
        "MCC ρ",
        "↑",
        "the same with the correlation of ranks",
        lambda rows, _: matched_rank_correlation(rows),
        COLUMNS,
        reads="rows",
        fits=True,
        held_out_within=SIGNED,
    ),
)
"""Every measure, in the order of the columns of a table."""

ALL_MEASURES = tuple(measure.name for measure in MEASURES)
EVERY = "all"


def measure_called(name: str) -> Measure:
    """Return the measure of a name such as ``linear-cka`` or ``svcca-16``.

    Raises:
        InputError: There is no such measure, or its number is none.
    """
    for measure in MEASURES:
        if name == measure.name:
            return measure if measure.size is None else _sized(measure, measure.size)
        sized = re.fullmatch(rf"{re.escape(measure.name)}-([1-9][0-9]{{0,8}})", name)
        if sized is not None and measure.size is not None:
            return _sized(measure, int(sized[1]))
    raise InputError(f"measures: got {name}, expected some of: {measure_names()}, or {EVERY}")


def measures_called(names: Iterable[str]) -> tuple[Measure, ...]:
    """Return the measures of some names, each once; ``all`` stands for every one.

    Raises:
        InputError: As ``measure_called``.
    """
    called = [
        measure_called(single)
        for name in names
        for single in (ALL_MEASURES if name == EVERY else (name,))
    ]
    return tuple({measure.name: measure for measure in called}.values())


def measure_names() -> str:
    """Return the names for people: where a number may follow, with the one that is meant."""
    return ", ".join(
        name if size is None else f"{name}-K ({name}: {size})"
        for name, size in ((measure.name, measure.size) for measure in MEASURES)
    )


def _sized(measure: Measure, size: int) -> Measure:
    return replace(
        measure,
        name=f"{measure.name}-{size}",
        title=f"{measure.title} {size}",
        size=size,
    )
