"""All maps of one pair, fitted from its moments and the ICA of each side."""

from collections.abc import Sequence
from dataclasses import dataclass

from repalign.core.ica.fit import IcaFit
from repalign.core.ica.matching import (
    IcaMatching,
    ica_map,
    match_components,
    matched_components_map,
)
from repalign.core.inference.nulls import JudgedMap
from repalign.core.maps.kinds import fit_map
from repalign.core.maps.permutation import AssignmentCost, fit_permutation
from repalign.core.moments import PairMoments
from repalign.workflows.compare.settings import ICA_MAPS


@dataclass(frozen=True, eq=False)
class IcaPair:
    """The ICA of source and target, each fitted without looking at the other."""

    source: IcaFit
    target: IcaFit


@dataclass(frozen=True, eq=False)
class PairMaps:
    """Fitted maps by name, and how the ICA components matched where there is ICA."""

    by_name: dict[str, JudgedMap]
    matching: IcaMatching | None


def fit_pair_maps(
    moments: PairMoments,
    names: Sequence[str],
    *,
    ica: IcaPair | None,
    permutation_cost: AssignmentCost = "inner-product",
) -> PairMaps:
    """Fit the named maps; the ICA maps need the ICA of both sides."""
    matching = None if ica is None else match_components(moments, ica.source, ica.target)
    fitted = {}
    for name in names:
        if name in ICA_MAPS:
            assert ica is not None
            assert matching is not None
            fitted[name] = _ica_map(name, moments, ica, matching)
        elif name.startswith("permutation"):
            scale = name == "permutation+scale"
            fitted[name] = JudgedMap(fit_permutation(moments, scale=scale, cost=permutation_cost))
        else:
            fitted[name] = JudgedMap(fit_map(name, moments))
    return PairMaps(fitted, matching)


def _ica_map(name: str, moments: PairMoments, ica: IcaPair, matching: IcaMatching) -> JudgedMap:
    pairs = matching.matching
    if name == "ica-components":
        to_components = matched_components_map(moments, ica.source, ica.target, pairs)
        return JudgedMap(to_components, target_space=ica.target.to_components())
    scale = name == "ica+scale"
    return JudgedMap(ica_map(moments, ica.source, ica.target, pairs, scale=scale))
