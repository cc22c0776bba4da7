"""The errors of every map of a pair, in-sample and held-out, with their denominators."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from repalign.aliases import FloatArray, IntArray, Rows
from repalign.core.errors.diameter import Diameter, diameter
from repalign.core.errors.robust_scale import quantile_diameter, target_rms_radius
from repalign.core.errors.row_errors import row_errors
from repalign.core.inference.nulls import JudgedMap
from repalign.core.maps.affine import AffineMap, MappedRows
from repalign.core.maps.fitting import IcaPair, MapInputs, PairMaps, fit_maps
from repalign.core.maps.kinds import KIND_OF
from repalign.core.maps.linear import fit_linear_from_rows, is_ill_conditioned
from repalign.core.moments import PairMoments, leave_one_out, merge_all, pair_moments
from repalign.core.rows import SubsetRows
from repalign.exceptions import InputError
from repalign.workflows.compare.aligned import PairRows, SpaceKey
from repalign.workflows.compare.settings import CompareSettings
from repalign.workflows.compare.space_ica import IcaStore, SpaceIca
from repalign.workflows.machine import Machine


@dataclass(frozen=True, eq=False)
class Scale:
    """Denominators of errors in one space: the diameter, and two that no outlier sets."""

    diameter: Diameter
    diameter_99: float
    rms_radius: float


@dataclass(frozen=True, eq=False)
class SplitErrors:
    """Errors of every map on the rows of one kind of split.

    Attributes:
        split: ``in-sample`` or ``held-out``.
        norms: ‖prediction − target‖ by map and judged row.
        groups: Group of every judged row.
        scales: Denominators by map.
        n_fit_rows: Rows that fitted the maps.
        maps: The fitted maps; of the first fold where there are several.
        ica: The two ICA fits behind them, with their agreement over seeds.
    """

    split: str
    norms: Mapping[str, FloatArray]
    groups: IntArray
    scales: Mapping[str, Scale]
    n_fit_rows: int
    maps: PairMaps
    ica: tuple[SpaceIca, SpaceIca] | None


class PairFitter:
    """Fits and judges the maps of one pair, whatever rows are left out."""

    def __init__(
        self,
        pair: PairRows,
        names: Sequence[str],
        settings: CompareSettings,
        *,
        machine: Machine,
        fits: IcaStore,
    ) -> None:
        self.pair = pair
        self.names = tuple(names)
        self.settings = settings
        self.machine = machine
        self.fits = fits
        self.total = merge_all(pair.parts)
        self.rest = leave_one_out(pair.parts) if pair.split.judged else ()

    def moments_without(self, part: int | None) -> PairMoments:
        """Return the moments of all rows but those of one part."""
        return self.total if part is None else self.rest[part]

    def ica_without(self, part: int | None) -> tuple[SpaceIca, SpaceIca] | None:
        """Return the ICA of both sides, fitted without the rows of one part."""
        if not any(KIND_OF[name].needs_ica for name in self.names):
            return None
        fits = []
        for side in (0, 1):
            half = side if self.settings.ica_rows == "disjoint" else None
            key = self.pair.space_keys[side], (part, half)
            if not self.fits.has(*key):
                self._add_ica(key, part, side)
            fits.append(self.fits.get(*key))
        return fits[0], fits[1]

    def _add_ica(
        self, key: tuple[SpaceKey, tuple[int | None, int | None]], part: int | None, side: int
    ) -> None:
        rows, mean, covariance = self._ica_rows(part, side)
        try:
            self.fits.add(
                *key,
                rows,
                mean=mean,
                covariance=covariance,
                settings=self.settings,
                machine=self.machine,
            )
        except InputError as failure:
            name = "source" if side == 0 else "target"
            raise InputError(
                f"ICA of the {name} on {rows.shape[0]} rows: {failure}, or leave ICA out "
                "(--maps mean,permutation,rigid,linear)"
            ) from failure

    def _ica_rows(self, part: int | None, side: int) -> tuple[Rows, FloatArray, FloatArray]:
        """Return the rows on which one side fits its ICA, with their own mean and covariance."""
        chosen = None if part is None else self.pair.split.fitting_rows(part)
        moments = self.moments_without(part)
        if self.settings.ica_rows == "disjoint":
            chosen = self._half(chosen, side)
            # Not those of all rows: what is white on all rows is not white on half of them.
            (moments,) = pair_moments(
                SubsetRows(self.pair.source, chosen),
                SubsetRows(self.pair.target, chosen),
                memory_bytes=self.machine.memory_bytes,
                device=self.machine.device,
            )
        rows = self.pair.source if side == 0 else self.pair.target
        mean, scatter = (
            (moments.mean_x, moments.sxx) if side == 0 else (moments.mean_y, moments.syy)
        )
        return rows if chosen is None else SubsetRows(rows, chosen), mean, scatter / moments.n

    def _half(self, rows: IntArray | None, side: int) -> IntArray:
        """Return the half of the rows that belongs to one side."""
        every = np.arange(self.pair.n_rows) if rows is None else rows
        order = np.random.default_rng(self.settings.seed).permutation(every)
        middle = len(order) // 2
        return np.sort(order[:middle] if side == 0 else order[middle:])

    def fit(self, moments: PairMoments, part: int | None) -> PairMaps:
        """Fit all maps on moments of rows without one part, be they paired or shuffled."""
        ica = self.ica_without(part)
        fits = None if ica is None else IcaPair(ica[0].fit, ica[1].fit)
        return fit_maps(self.names, MapInputs(moments, fits, self.settings.permutation_cost))

    def _fit_observed(self, part: int | None) -> PairMaps:
        """Fit all maps on the observed pairs of rows without one part.

        Where the moments cannot resolve all directions, least squares reads the rows again.
        """
        moments = self.moments_without(part)
        maps = self.fit(moments, part)
        if "linear" not in maps.by_name or not is_ill_conditioned(moments):
            return maps
        rows: tuple[Rows, Rows] = self.pair.source, self.pair.target
        if part is not None:
            chosen = self.pair.split.fitting_rows(part)
            rows = SubsetRows(rows[0], chosen), SubsetRows(rows[1], chosen)
        linear = fit_linear_from_rows(
            *rows, moments, memory_bytes=self.machine.memory_bytes, device=self.machine.device
        )
        return replace(maps, by_name=maps.by_name | {"linear": JudgedMap(linear)})

    def fit_all(self, moments: PairMoments, part: int | None) -> list[JudgedMap]:
        """Fit all maps and return them in the order of the names."""
        by_name = self.fit(moments, part).by_name
        return [by_name[name] for name in self.names]

    def in_sample(self) -> SplitErrors:
        """Fit on all rows and judge on the same rows."""
        maps = self._fit_observed(None)
        norms = self._norms(self.pair.source, self.pair.target, maps)
        return SplitErrors(
            split="in-sample",
            norms=norms,
            groups=self.pair.groups,
            scales=self._scales(maps, None, self.total),
            n_fit_rows=self.total.n,
            maps=maps,
            ica=self.ica_without(None),
        )

    def held_out(self) -> SplitErrors:
        """Judge every part by maps fitted on the others, and put the parts together."""
        split = self.pair.split
        norms: dict[str, list[FloatArray]] = {name: [] for name in self.names}
        fitted = []
        for part in split.judged:
            rows = split.judged_rows(part)
            maps = self._fit_observed(part)
            subsets = SubsetRows(self.pair.source, rows), SubsetRows(self.pair.target, rows)
            for name, values in self._norms(*subsets, maps).items():
                norms[name].append(values)
            fitted.append(maps)
        judged = np.concatenate([split.judged_rows(part) for part in split.judged])
        every = judged.size == self.pair.n_rows or self.settings.diameter_rows == "all"
        judging = merge_all(tuple(self.pair.parts[part] for part in split.judged))
        return SplitErrors(
            split="held-out",
            norms={name: np.concatenate(values) for name, values in norms.items()},
            groups=self.pair.groups[judged],
            scales=(
                self._scales(fitted[0], None, self.total)
                if every
                else self._scales(fitted[0], np.sort(judged), judging)
            ),
            n_fit_rows=self.rest[split.judged[0]].n,
            maps=fitted[0],
            ica=self.ica_without(split.judged[0]),
        )

    def _norms(self, source: Rows, target: Rows, maps: PairMaps) -> dict[str, FloatArray]:
        """Return the error norms of all maps, one pass over the rows for each target space."""
        spaces: dict[int, tuple[AffineMap | None, list[str]]] = {}
        for name, judged in maps.by_name.items():
            spaces.setdefault(id(judged.target_space), (judged.target_space, []))[1].append(name)
        norms: dict[str, FloatArray] = {}
        for space, names in spaces.values():
            rows = target if space is None else MappedRows(target, space)
            errors = row_errors(
                source,
                rows,
                [maps.by_name[name].map for name in names],
                memory_bytes=self.machine.memory_bytes,
                device=self.machine.device,
                on_progress=self.machine.on_progress("errors"),
            )
            norms |= dict(zip(names, errors, strict=True))
        return norms

    def _scales(
        self, maps: PairMaps, judged: IntArray | None, moments: PairMoments
    ) -> dict[str, Scale]:
        """Return the denominators of every map: those of the space in which its error lives.

        ``judged`` are the rows that set them (None for all), ``moments`` those of these rows.
        """
        target = self.pair.target if judged is None else SubsetRows(self.pair.target, judged)
        found: dict[int, Scale] = {}
        scales = {}
        for name, fitted in maps.by_name.items():
            space = fitted.target_space
            if id(space) not in found:
                rows = target if space is None else MappedRows(target, space)
                found[id(space)] = self._scale(rows, rms_radius(moments, space))
            scales[name] = found[id(space)]
        return scales

    def _scale(self, rows: Rows, radius: float) -> Scale:
        largest = diameter(
            rows,
            memory_bytes=self.machine.memory_bytes,
            device=self.machine.device,
            on_progress=self.machine.on_progress("diameter"),
        )
        return Scale(
            diameter=largest,
            diameter_99=quantile_diameter(rows, seed=self.settings.seed),
            rms_radius=radius,
        )


def rms_radius(moments: PairMoments, space: AffineMap | None) -> float:
    """Return the root mean squared distance of the target rows from their mean in a space."""
    if space is None:
        return target_rms_radius(moments)
    scatter = np.einsum("ij,ik,kj->", space.matrix, moments.syy, space.matrix, optimize=True)
    return float(np.sqrt(max(scatter, 0.0) / moments.n))
