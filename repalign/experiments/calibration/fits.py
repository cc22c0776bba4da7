"""The maps of a trial: ICA of both sides, from one start, on the same rows and on disjoint ones.

ICA is fitted once for every part of the split that is left out, until it converges as in
``compare``: stopped at a gradient of 1e-3, two fits in 150 stayed at a saddle, and moved the
average that is claimed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from repalign.core.ica.leaving_out import LeftOutIca
from repalign.core.inference.kept_rows import JudgedMap
from repalign.core.inference.refits import RefitAll
from repalign.core.inference.splits import Split
from repalign.core.maps.fitting import IcaPair, MapInputs, fit_maps
from repalign.core.maps.kinds import ALL_MAPS
from repalign.core.moments import PairMoments
from repalign.core.rows import ArrayRows

if TYPE_CHECKING:
    from repalign.aliases import FloatArray, IntArray
    from repalign.core.ica.components import IcaFit

    Pair = tuple[FloatArray, FloatArray]

JUDGED = (*ALL_MAPS, "ica (disjoint)")


@dataclass(frozen=True, eq=False)
class IcaOnRows:
    """The ICA of both sides, and which rows each was fitted on."""

    fits: IcaPair
    rows: tuple["IntArray", "IntArray"]

    @classmethod
    def of(cls, pair: "Pair", rows: tuple["IntArray", "IntArray"], seed: int) -> "IcaOnRows":
        """Fit each side on its rows."""
        source, target = (side[chosen] for side, chosen in zip(pair, rows, strict=True))
        return cls(IcaPair(_unmixed(source, 2 * seed), _unmixed(target, 2 * seed + 1)), rows)

    def leaving(self, pair: "Pair", bundle: "IntArray") -> Callable[[PairMoments, int], IcaPair]:
        """Return what both would be without a bundle of the rows."""
        source = LeftOutIca(self.fits.source, ArrayRows(pair[0]), bundle, self.rows[0])
        target = LeftOutIca(self.fits.target, ArrayRows(pair[1]), bundle, self.rows[1])
        return lambda rest, number: IcaPair(
            source.without(number, rest), target.without(number, rest.swapped())
        )


@dataclass(frozen=True, eq=False)
class FittedIca:
    """The ICA of both sides on the same rows and on disjoint halves, by the part left out."""

    by_part: Mapping[int | None, tuple[IcaOnRows, IcaOnRows]]

    @classmethod
    def of(cls, pair: "Pair", split: Split, parts: Sequence[int | None], seed: int) -> "FittedIca":
        """Fit all that the maps without these parts need; none is disjoint with several parts."""
        found = {}
        for part in parts:
            rows = np.arange(len(pair[0])) if part is None else split.fitting_rows(part)
            same = apart = IcaOnRows.of(pair, (rows, rows), seed)
            if split.n_parts <= 2:
                a, b = np.array_split(np.random.default_rng((seed, 1)).permutation(rows), 2)
                apart = IcaOnRows.of(pair, (np.sort(a), np.sort(b)), seed)
            found[part] = same, apart
        return cls(found)

    def fit_all(self, moments: PairMoments, part: int | None) -> list[JudgedMap]:
        """Fit every map, in the order of ``JUDGED``."""
        same, apart = self.by_part[part]
        return _fit(moments, same.fits, apart.fits)

    def leaving(self, pair: "Pair", bundle: "IntArray") -> RefitAll:
        """Return how all maps are fitted without a bundle of the rows, ICA too."""
        same, apart = (each.leaving(pair, bundle) for each in self.by_part[None])
        return lambda rest, number: _fit(rest, same(rest, number), apart(rest, number))


def _fit(moments: PairMoments, same: IcaPair, apart: IcaPair) -> list[JudgedMap]:
    maps = fit_maps(ALL_MAPS, MapInputs(moments, same)).by_name
    again = maps["ica"]
    if apart is not same:
        again = fit_maps(["ica"], MapInputs(moments, apart)).by_name["ica"]
    return [*(maps[name] for name in ALL_MAPS), again]


def _unmixed(rows: "FloatArray", seed: int) -> "IcaFit":
    from repalign.core.ica.fit import prepare
    from repalign.core.ica.settings import IcaSettings

    mean, covariance = rows.mean(axis=0), np.cov(rows.T, bias=True)
    wanted = IcaSettings()
    return prepare(ArrayRows(rows), mean=mean, covariance=covariance, settings=wanted).fit(seed)
