"""The errors of every map of a pair, in-sample and held-out, with their denominators."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from repalign.aliases import FloatArray, IntArray, Rows
from repalign.core.errors.row_errors import row_errors
from repalign.core.ica.starts import over_starts
from repalign.core.inference.kept_rows import JudgedMap
from repalign.core.inference.left_out import LeftOut, leave_groups_out
from repalign.core.maps.affine import AffineMap, MappedRows
from repalign.core.maps.fitting import IcaPair, MapInputs, PairMaps, fit_maps
from repalign.core.maps.kinds import KIND_OF
from repalign.core.maps.linear import fit_linear_from_rows, is_ill_conditioned
from repalign.core.moments import PairMoments, merge_all
from repalign.core.rows import SubsetRows
from repalign.workflows.compare.pair_data import PairData
from repalign.workflows.compare.settings import CompareSettings
from repalign.workflows.compare.spaces import (
    IcaRows,
    Scale,
    SpaceIca,
    rms_radius,
    spread_of,
)
from repalign.workflows.machine import Machine


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
        left_out: Mean errors without each group, for intervals; None where none are wanted.
        start_half_widths: By ICA map, how far the mean error of another run of starts may be off;
            without the maps of a single start, of which that is not known.
    """

    split: str
    norms: Mapping[str, FloatArray]
    groups: IntArray
    scales: Mapping[str, Scale]
    n_fit_rows: int
    maps: PairMaps
    ica: tuple[SpaceIca, SpaceIca] | None
    left_out: LeftOut | None
    start_half_widths: Mapping[str, float]


def ica_rows(settings: CompareSettings, side: int, part: int | None) -> IcaRows:
    """Return the rows on which one side fits its ICA where a part is left out."""
    return IcaRows(part, side if settings.ica_rows == "disjoint" else None)


class PairFitter:
    """Fits and judges the maps of one pair, whatever rows are left out."""

    def __init__(
        self, pair: PairData, names: Sequence[str], settings: CompareSettings, machine: Machine
    ) -> None:
        self.pair = pair
        self.split = pair.aligned.split
        self.names = tuple(names)
        self.settings = settings
        self.machine = machine

    def ica_without(self, part: int | None) -> tuple[SpaceIca, SpaceIca] | None:
        """Return the ICA of both sides, fitted without the rows of one part."""
        if not any(KIND_OF[name].needs_ica for name in self.names):
            return None
        source, target = (
            self.pair.ica[side, ica_rows(self.settings, side, part)] for side in (0, 1)
        )
        return source, target

    def fit(self, part: int | None, moments: PairMoments | None = None) -> PairMaps:
        """Fit all maps on the rows without one part.

        ``moments`` are those of shuffled pairs; without them the pairs are as they were observed,
        and where their moments cannot resolve all directions, least squares reads the rows again.
        """
        ica = self.ica_without(part)
        fits = None if ica is None else IcaPair(ica[0].fit, ica[1].fit)
        used = self.pair.moments_without(part) if moments is None else moments
        maps = fit_maps(self.names, self.inputs(used, fits))
        if moments is not None or "linear" not in maps.by_name or not is_ill_conditioned(used):
            return maps
        rows: tuple[Rows, Rows] = self.pair.source, self.pair.target
        if part is not None:
            chosen = self.split.fitting_rows(part)
            rows = SubsetRows(rows[0], chosen), SubsetRows(rows[1], chosen)
        linear = fit_linear_from_rows(*rows, used, **self.machine.limits("linear map"))
        return replace(maps, by_name=maps.by_name | {"linear": JudgedMap(linear)})

    def fit_all(self, moments: PairMoments, part: int | None) -> list[JudgedMap]:
        """Fit all maps and return them in the order of the names."""
        return self.fit(part, moments).in_order(self.names)

    def of_sample(self, only: tuple[int, ...]) -> dict[str, FloatArray]:
        """Fit all maps on some parts alone, and return their errors there."""
        moments = merge_all(tuple(self.pair.parts[part] for part in only))
        ons = [replace(ica_rows(self.settings, side, None), only=only) for side in (0, 1)]
        source, target = (self.pair.ica[side, on].fit for side, on in zip((0, 1), ons, strict=True))
        maps = fit_maps(self.names, self.inputs(moments, IcaPair(source, target)))
        rows = np.flatnonzero(np.isin(self.split.part_of_row, only))
        judged = SubsetRows(self.pair.source, rows), SubsetRows(self.pair.target, rows)
        return self.norms(*judged, maps)

    def inputs(self, moments: PairMoments, ica: IcaPair | None) -> MapInputs:
        """Return what maps are fitted on."""
        return MapInputs(moments, ica, self.settings.permutation_cost)

    def in_sample(self) -> SplitErrors:
        """Fit on all rows and judge on the same rows; intervals come with ``refits.py``."""
        maps = self.fit(None)
        over = self._over_starts(self.pair.source, self.pair.target, maps, None)
        norms = over.norms
        return SplitErrors(
            split="in-sample",
            norms=norms,
            groups=self.pair.aligned.groups,
            scales=self._scales(maps),
            n_fit_rows=self.pair.total.n,
            maps=maps,
            ica=self.ica_without(None),
            left_out=None,
            start_half_widths=over.half_widths,
        )

    def held_out(self) -> SplitErrors:
        """Judge every part by maps fitted on the others, and put the parts together."""
        split = self.split
        over, fitted = [], []
        for part in split.judged:
            rows = split.judged_rows(part)
            maps = self.fit(part)
            subsets = SubsetRows(self.pair.source, rows), SubsetRows(self.pair.target, rows)
            over.append(self._over_starts(*subsets, maps, part))
            fitted.append(maps)
        judged = np.concatenate([split.judged_rows(part) for part in split.judged])
        groups = self.pair.aligned.groups[judged]
        joined = {name: np.concatenate([each.norms[name] for each in over]) for name in self.names}
        left_out = None
        if self.settings.n_refits != 0:
            stacked = np.stack([joined[name] for name in self.names])
            left_out = leave_groups_out(stacked, groups, seed=self.settings.seed)
        return SplitErrors(
            split="held-out",
            norms=joined,
            groups=groups,
            scales=self._scales(fitted[0]),
            n_fit_rows=self.pair.rest[split.judged[0]].n,
            maps=fitted[0],
            ica=self.ica_without(split.judged[0]),
            left_out=left_out,
            start_half_widths=_of_all_parts(over),
        )

    def _over_starts(
        self, source: Rows, target: Rows, maps: PairMaps, part: int | None
    ) -> "_OverStarts":
        """Return the errors of all maps, those of ICA as means over all pairs of kept starts."""
        norms = self.norms(source, target, maps)
        ica = self.ica_without(part)
        names = [name for name in self.names if KIND_OF[name].needs_ica]
        # Equal content has equal starts, which are not independent: each pairs with itself.
        if ica is None or len(ica[0].fits) * len(ica[1].fits) == 1 or _are_equal(*ica):
            return _OverStarts(norms, {})
        moments, cost = self.pair.moments_without(part), self.settings.permutation_cost
        sums = {name: np.zeros_like(norms[name]) for name in names}
        shape = len(ica[0].fits), len(ica[1].fits)
        means = {name: np.empty(shape) for name in names}
        for i, j in np.ndindex(shape):
            found = norms
            if (i, j) != (0, 0):
                given = MapInputs(moments, IcaPair(ica[0].fits[i], ica[1].fits[j]), cost)
                found = self.norms(source, target, fit_maps(names, given))
            for name in names:
                sums[name] += found[name]
                means[name][i, j] = found[name].mean()
        averaged = {name: total / means[name].size for name, total in sums.items()}
        halves = {name: over_starts(means[name]).half_width for name in names}
        known = {name: half for name, half in halves.items() if half is not None}
        return _OverStarts(norms | averaged, known)

    def norms(self, source: Rows, target: Rows, maps: PairMaps) -> dict[str, FloatArray]:
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
                **self.machine.limits("errors"),
            )
            norms |= dict(zip(names, errors, strict=True))
        return norms

    def _scales(self, maps: PairMaps) -> dict[str, Scale]:
        """Return the denominators of every map: those of the space in which its error lives.

        They are of all target rows of the pair, in-sample and held-out alike.
        """
        by_space: dict[int, Scale] = {}
        for fitted in maps.by_name.values():
            space = fitted.target_space
            if id(space) not in by_space:
                by_space[id(space)] = self.scale(space)
        return {name: by_space[id(one.target_space)] for name, one in maps.by_name.items()}

    def scale(self, space: AffineMap | None = None) -> Scale:
        """Return the denominators of errors in the target's space, or in one mapped from it."""
        spread = self.pair.spreads.get(1) if space is None else None
        if spread is None:
            rows = self.pair.target if space is None else MappedRows(self.pair.target, space)
            spread = spread_of(rows, self.settings.seed, self.machine)
        radius = rms_radius(self.pair.total, space)
        return Scale(spread.diameter, spread.diameter_99, radius)


@dataclass(frozen=True, eq=False)
class _OverStarts:
    """Errors by map and row, and how far another run of starts may move their means."""

    norms: dict[str, FloatArray]
    half_widths: dict[str, float]


def _are_equal(first: SpaceIca, second: SpaceIca) -> bool:
    return np.array_equal(first.fit.unmixing, second.fit.unmixing)


def _of_all_parts(over: Sequence[_OverStarts]) -> dict[str, float]:
    """Return the half widths of means over all parts, whose starts are independent."""
    sizes = np.array([next(iter(each.norms.values())).size for each in over])
    known = set.intersection(*(set(each.half_widths) for each in over))
    return {
        name: float(np.linalg.norm(sizes * [each.half_widths[name] for each in over]) / sizes.sum())
        for name in sorted(known)
    }
