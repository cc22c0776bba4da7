"""How every kind of map is fitted: from the moments of a pair and the ICA of its two sides."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from repalign.core.ica.components import IcaFit
from repalign.core.ica.matching import (
    IcaMatching,
    ica_map,
    match_components,
    matched_components_map,
)
from repalign.core.maps.affine import AffineMap
from repalign.core.maps.closed_form import fit_identity, fit_mean, fit_rigid
from repalign.core.maps.kinds import ALL_MAPS, KIND_OF
from repalign.core.maps.linear import fit_linear
from repalign.core.maps.orthogonal import NearestOrthogonal, nearest_orthogonal
from repalign.core.maps.permutation import (
    AssignmentCost,
    SignedMatching,
    fit_permutation,
    match_columns,
)
from repalign.core.moments import PairMoments
from repalign.exceptions import InputError


@dataclass(frozen=True, eq=False)
class IcaPair:
    """The ICA of source and target, each fitted without looking at the other."""

    source: IcaFit
    target: IcaFit


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
class MapInputs:
    """All that a map may be fitted from.

    Attributes:
        moments: Of the rows that fit.
        ica: Of both sides, where maps need it.
        columns: How the columns of both sides match, for all permutations.
        nearest: The orthogonal matrix of all rigid maps.
        matching: How the components of both sides match, for all ICA maps.
    """

    moments: PairMoments
    ica: IcaPair | None = None
    columns: SignedMatching | None = None
    nearest: NearestOrthogonal | None = None
    matching: IcaMatching | None = None

    def mean(self) -> FittedMap:
        """Return the mean of the target."""
        return FittedMap(fit_mean(self.moments))

    def identity(self) -> FittedMap:
        """Return the identity."""
        return FittedMap(fit_identity(self.moments))

    def permutation(self, *, scale: bool) -> FittedMap:
        """Return the signed permutation of columns."""
        assert self.columns is not None
        return FittedMap(fit_permutation(self.moments, self.columns, scale=scale))

    def rigid(self, *, scale: bool) -> FittedMap:
        """Return the rigid map."""
        nearest = self.nearest
        assert nearest is not None
        return FittedMap(fit_rigid(self.moments, scale=scale, nearest=nearest), free=nearest.free)

    def linear(self) -> FittedMap:
        """Return least squares."""
        return FittedMap(fit_linear(self.moments))

    def ica_map(self, *, scale: bool) -> FittedMap:
        """Return the map between matched components, back in the target's space."""
        assert self.ica is not None
        assert self.matching is not None
        sides, pairs = (self.ica.source, self.ica.target), self.matching.matching
        return FittedMap(ica_map(self.moments, *sides, pairs, scale=scale))

    def ica_components(self) -> FittedMap:
        """Return the map onto matched components of the target."""
        assert self.ica is not None
        assert self.matching is not None
        ica, pairs = self.ica, self.matching.matching
        onto = matched_components_map(self.moments, ica.source, ica.target, pairs)
        return FittedMap(onto, target_space=ica.target.to_components())


@dataclass(frozen=True, eq=False)
class PairMaps:
    """Fitted maps by name, and how the ICA components matched where there is ICA."""

    by_name: dict[str, FittedMap]
    matching: IcaMatching | None


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
        InputError: A kind is unknown or lacks its ICA, there are no rows, or the widths do not
            suit the kind.
    """
    for name in names:
        if name not in KIND_OF:
            raise InputError(f"map {name!r} is unknown; expected one of: {', '.join(ALL_MAPS)}")
    if moments.n < 1:
        raise InputError("there are no rows to fit a map on; expected at least one")
    if ica is None and any(KIND_OF[name].needs_ica for name in names):
        raise InputError("an ICA map needs the ICA of both sides; fit it first, or leave it out")
    # what several of the maps share is computed once
    permutes = any(name.startswith("permutation") for name in names)
    rotates = any(name.startswith("rigid") for name in names)
    inputs = MapInputs(
        moments,
        ica,
        columns=match_columns(moments, cost) if permutes else None,
        nearest=nearest_orthogonal(moments) if rotates else None,
        matching=None if ica is None else match_components(moments, ica.source, ica.target),
    )
    fitted = {name: KIND_OF[name].fit(inputs) for name in names}
    return PairMaps(fitted, inputs.matching)


def fit_map(name: str, moments: PairMoments, ica: IcaPair | None = None) -> AffineMap:
    """Fit one map, by the default conventions.

    Raises:
        InputError: As ``fit_maps``.
    """
    return fit_maps([name], moments, ica).by_name[name].map
