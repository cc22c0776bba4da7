"""How every kind of map is fitted: from the moments of a pair and the ICA of its two sides."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from repalign.core.ica.components import IcaFit
from repalign.core.ica.matching import (
    IcaMatching,
    ica_map,
    match_components,
    matched_components_map,
)
from repalign.core.inference.kept_rows import JudgedMap
from repalign.core.maps.affine import AffineMap
from repalign.core.maps.closed_form import fit_identity, fit_mean, fit_rigid
from repalign.core.maps.kinds import ALL_MAPS
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
class MapInputs:
    """All that a map may be fitted from.

    Attributes:
        moments: Of the rows that fit.
        ica: Of both sides, where maps need it.
        permutation_cost: What the assignment of columns maximises.
    """

    moments: PairMoments
    ica: IcaPair | None = None
    permutation_cost: AssignmentCost = "inner-product"

    @cached_property
    def both_ica(self) -> IcaPair:
        """The ICA of both sides.

        Raises:
            InputError: It was not given.
        """
        if self.ica is None:
            raise InputError(
                "an ICA map needs the ICA of both sides; fit it first, or leave it out"
            )
        return self.ica

    @cached_property
    def columns(self) -> SignedMatching:
        """How the columns of both sides match, for all permutations."""
        return match_columns(self.moments, self.permutation_cost)

    @cached_property
    def nearest(self) -> NearestOrthogonal:
        """The orthogonal matrix of all rigid maps."""
        return nearest_orthogonal(self.moments)

    @cached_property
    def matching(self) -> IcaMatching:
        """How the components of both sides match, for all ICA maps."""
        return match_components(self.moments, self.both_ica.source, self.both_ica.target)


@dataclass(frozen=True, eq=False)
class PairMaps:
    """Fitted maps by name, and how the ICA components matched where there is ICA."""

    by_name: dict[str, JudgedMap]
    matching: IcaMatching | None

    def in_order(self, names: Sequence[str]) -> list[JudgedMap]:
        """Return the named maps."""
        return [self.by_name[name] for name in names]


Fitter = Callable[[MapInputs], JudgedMap]


def _closed_form(fit: Callable[[PairMoments], AffineMap]) -> Fitter:
    return lambda given: JudgedMap(fit(given.moments))


def _permutation(given: MapInputs, *, scale: bool) -> JudgedMap:
    return JudgedMap(fit_permutation(given.moments, given.columns, scale=scale))


def _rigid(given: MapInputs, *, scale: bool) -> JudgedMap:
    nearest = given.nearest
    return JudgedMap(fit_rigid(given.moments, scale=scale, nearest=nearest), free=nearest.free)


def _ica(given: MapInputs, *, scale: bool) -> JudgedMap:
    ica, pairs = given.both_ica, given.matching.matching
    return JudgedMap(ica_map(given.moments, ica.source, ica.target, pairs, scale=scale))


def _ica_components(given: MapInputs) -> JudgedMap:
    ica, pairs = given.both_ica, given.matching.matching
    onto = matched_components_map(given.moments, ica.source, ica.target, pairs)
    return JudgedMap(onto, target_space=ica.target.to_components())


FITTERS: dict[str, Fitter] = {
    "mean": _closed_form(fit_mean),
    "identity": _closed_form(fit_identity),
    "permutation": partial(_permutation, scale=False),
    "permutation+scale": partial(_permutation, scale=True),
    "rigid-noscale": partial(_rigid, scale=False),
    "rigid": partial(_rigid, scale=True),
    "linear": _closed_form(fit_linear),
    "ica": partial(_ica, scale=False),
    "ica+scale": partial(_ica, scale=True),
    "ica-components": _ica_components,
}
"""Name of a kind of map → how it is fitted."""


def check_complete(fitters: Iterable[str], kinds: Iterable[str] = ALL_MAPS) -> None:
    """Check that every kind of map has a fitter and every fitter a kind.

    Raises:
        ImportError: One of the two lists lacks a name.
    """
    odd = sorted(set(fitters) ^ set(kinds))
    if odd:
        raise ImportError(
            f"{', '.join(odd)}: in one of MAP_KINDS and FITTERS only; a map needs both"
        )


check_complete(FITTERS)


def fit_maps(names: Sequence[str], given: MapInputs) -> PairMaps:
    """Fit the named maps.

    Raises:
        InputError: A kind is unknown or lacks its ICA, there are no rows, or the widths do not
            suit the kind.
    """
    for name in names:
        if name not in FITTERS:
            raise InputError(f"map {name!r} is unknown; expected one of: {', '.join(ALL_MAPS)}")
    if given.moments.n < 1:
        raise InputError("there are no rows to fit a map on; expected at least one")
    fitted = {name: FITTERS[name](given) for name in names}
    return PairMaps(fitted, None if given.ica is None else given.matching)


def fit_map(name: str, moments: PairMoments, ica: IcaPair | None = None) -> AffineMap:
    """Fit one map, by the default conventions.

    Raises:
        InputError: As ``fit_maps``.
    """
    return fit_maps([name], MapInputs(moments, ica)).by_name[name].map
