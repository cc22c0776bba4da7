"""How every kind of map is fitted: from the moments of a pair and the ICA of its two sides."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

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
    matching: IcaMatching | None


Fitter = Callable[[MapInputs], FittedMap]


def _closed_form(fit: Callable[[PairMoments], AffineMap]) -> Fitter:
    return lambda inputs: FittedMap(fit(inputs.moments))


def _permutation(inputs: MapInputs, *, scale: bool) -> FittedMap:
    assert inputs.columns is not None
    return FittedMap(fit_permutation(inputs.moments, inputs.columns, scale=scale))


def _rigid(inputs: MapInputs, *, scale: bool) -> FittedMap:
    nearest = inputs.nearest
    assert nearest is not None
    return FittedMap(fit_rigid(inputs.moments, scale=scale, nearest=nearest), free=nearest.free)


def _ica(inputs: MapInputs, *, scale: bool) -> FittedMap:
    assert inputs.ica is not None
    assert inputs.matching is not None
    sides, pairs = (inputs.ica.source, inputs.ica.target), inputs.matching.matching
    return FittedMap(ica_map(inputs.moments, *sides, pairs, scale=scale))


def _ica_components(inputs: MapInputs) -> FittedMap:
    assert inputs.ica is not None
    assert inputs.matching is not None
    ica, pairs = inputs.ica, inputs.matching.matching
    onto = matched_components_map(inputs.moments, ica.source, ica.target, pairs)
    return FittedMap(onto, target_space=ica.target.to_components())


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
        if name not in FITTERS:
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
    fitted = {name: FITTERS[name](inputs) for name in names}
    return PairMaps(fitted, inputs.matching)


def fit_map(name: str, moments: PairMoments, ica: IcaPair | None = None) -> AffineMap:
    """Fit one map, by the default conventions.

    Raises:
        InputError: As ``fit_maps``.
    """
    return fit_maps([name], moments, ica).by_name[name].map
