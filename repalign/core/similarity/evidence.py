"""What a measure may be computed from: rows that fit, rows that judge, and what follows of them."""

from dataclasses import dataclass, replace

from repalign.core.moments import PairMoments
from repalign.core.similarity import linear
from repalign.core.similarity.canonical import Canonical, FittingMoments, canonical_correlations
from repalign.core.similarity.held_rows import Correlation, HeldRows
from repalign.core.similarity.unbiased_cka import unbiased_linear_cka

# Fewer rows than this have no unbiased estimate.
FEWEST_UNBIASED = 4


@dataclass(frozen=True, eq=False)
class Evidence:
    """Rows that fit and rows that judge; in-sample both are the same.

    Attributes:
        fit: Moments of the rows that fit.
        judged: Moments of other rows that judge; None where the same rows do.
        rows: The rows that judge, where the measure reads rows.
        fit_rows: The rows that fit, where it reads rows; those that judge unless said.
        size: The number in the name of the measure, such as its neighbours.
    """

    fit: FittingMoments
    judged: PairMoments | None = None
    rows: HeldRows | None = None
    fit_rows: HeldRows | None = None
    size: int = 1

    def of_size(self, size: int) -> "Evidence":
        """Return the same for a measure whose name has this number."""
        return replace(self, size=size)

    @property
    def moments(self) -> PairMoments:
        """Moments of the rows that judge."""
        return self.fit.moments if self.judged is None else self.judged

    @property
    def held(self) -> HeldRows:
        """The rows that judge, of a measure that reads rows."""
        assert self.rows is not None
        return self.rows

    def canonical(self, components: int | None = None) -> Canonical:
        """Return the canonical correlations, of the leading directions or of all."""
        return canonical_correlations(self.fit, self.judged, components=components)

    def linear_cka(self) -> float:
        """Return biased linear CKA."""
        return linear.linear_cka(self.moments)

    def unbiased_cka(self) -> float:
        """Return unbiased linear CKA; NaN of too few rows."""
        if self.held.n < FEWEST_UNBIASED:
            return float("nan")
        return unbiased_linear_cka(self.moments, self.held.source.radii, self.held.target.radii)

    def r_squared(self) -> linear.Explained:
        """Return what least squares explains."""
        return linear.least_squares(self.fit, self.judged)

    def procrustes_angle(self) -> float:
        """Return the angle after the best rotation."""
        return linear.procrustes_angle(self.fit.moments, self.judged)

    def mutual_neighbours(self, count: int) -> float:
        """Return the mean share of nearest rows in common."""
        return self.held.mutual_neighbours(count)

    def distance_correlation(self, kind: Correlation) -> float:
        """Return the correlation of the distances of all pairs of rows."""
        return self.held.distance_correlation(kind)

    def matched_correlation(self, kind: Correlation) -> float:
        """Return the mean correlation of matched columns."""
        if kind == "pearson":
            return linear.matched_correlation(self.fit.moments, self.judged)
        if self.fit_rows is None:
            return linear.matched_correlation(self.held.rank_moments())
        return linear.matched_correlation(self.fit_rows.rank_moments(), self.held.rank_moments())
