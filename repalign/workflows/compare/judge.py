"""The errors of every map of a pair, in-sample and held-out, with their denominators."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from repalign.aliases import FloatArray, IntArray, Rows
from repalign.core.errors.row_errors import row_errors
from repalign.core.inference.jackknife import (
    Replicates,
    delete_a_group,
    delete_a_group_with_radius,
)
from repalign.core.inference.kept_rows import JudgedMap
from repalign.core.maps.affine import AffineMap, MappedRows
from repalign.core.maps.fitting import IcaPair, MapInputs, PairMaps, fit_maps
from repalign.core.maps.kinds import KIND_OF
from repalign.core.maps.linear import fit_linear_from_rows, is_ill_conditioned
from repalign.core.moments import PairMoments, merge_all, pair_moments
from repalign.core.rows import SubsetRows
from repalign.workflows.compare.pair_data import PairData
from repalign.workflows.compare.pairs import Pair
from repalign.workflows.compare.settings import CompareSettings
from repalign.workflows.compare.space import IcaRows, Scale, SpaceIca, scale_of_rows
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
        is_disjoint: Whether these were fitted on disjoint halves of the rows.
        left_out: Held-out mean errors without each group; None where no intervals are wanted.
        with_radius: The same without each group of all rows, and the RMS radius of the target.
        halves: Mean errors and the radius on half-samples: in-sample of all maps, held-out of
            those that the ICA efficiency needs; NaN for maps that were not fitted.
    """

    split: str
    norms: Mapping[str, FloatArray]
    groups: IntArray
    scales: Mapping[str, Scale]
    n_fit_rows: int
    maps: PairMaps
    ica: tuple[SpaceIca, SpaceIca] | None
    is_disjoint: bool
    left_out: Replicates | None = None
    with_radius: Replicates | None = None
    halves: Replicates | None = None


def ica_rows(aligned: Pair, side: int, part: int | None) -> IcaRows:
    """Return the rows on which one side fits its ICA where a part is left out.

    In-sample both sides see the same rows, as in the paper; held-out disjoint halves of the rest,
    so that nothing that they share is the noise of the same rows.
    """
    return IcaRows(part, side if part is not None and aligned.has_halves(part) else None)


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
            self.pair.ica[side, ica_rows(self.pair.aligned, side, part)] for side in (0, 1)
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

    def errors_on(
        self,
        names: Sequence[str],
        fitting: tuple[int, ...],
        judging: tuple[int, ...],
        ica: IcaPair | None,
    ) -> list[float]:
        """Fit maps on some parts, and return their mean errors on some parts."""
        maps = fit_maps(names, self.inputs(self.moments_of(fitting), ica))
        rows = np.flatnonzero(np.isin(self.split.part_of_row, judging))
        judged = SubsetRows(self.pair.source, rows), SubsetRows(self.pair.target, rows)
        norms = self.norms(*judged, maps)
        return [float(norms[name].mean()) for name in names]

    def moments_of(self, parts: tuple[int, ...]) -> PairMoments:
        """Return the moments of some parts, read again where they are not known."""
        if self.pair.parts:
            return merge_all(tuple(self.pair.parts[part] for part in parts))
        rows = np.flatnonzero(np.isin(self.split.part_of_row, parts))
        sides = SubsetRows(self.pair.source, rows), SubsetRows(self.pair.target, rows)
        (moments,) = pair_moments(*sides, **self.machine.limits("moments"))
        return moments

    def inputs(self, moments: PairMoments, ica: IcaPair | None) -> MapInputs:
        """Return what maps are fitted on."""
        return MapInputs(moments, ica, self.settings.permutation_cost)

    def in_sample(self) -> SplitErrors:
        """Fit on all rows and judge on the same rows."""
        maps = self.fit(None)
        norms = self._over_starts(self.pair.source, self.pair.target, maps, None)
        return SplitErrors(
            split="in-sample",
            norms=norms,
            groups=self.pair.aligned.groups,
            scales=self._scales(maps),
            n_fit_rows=self.pair.total.n,
            maps=maps,
            ica=self.ica_without(None),
            is_disjoint=False,
        )

    def held_out(self) -> SplitErrors:
        """Judge every part by maps fitted on the others, and put the parts together."""
        split = self.split
        errors, fitted = [], []
        for part in split.judged:
            rows = split.judged_rows(part)
            maps = self.fit(part)
            subsets = SubsetRows(self.pair.source, rows), SubsetRows(self.pair.target, rows)
            errors.append(self._over_starts(*subsets, maps, part))
            fitted.append(maps)
        judged = np.concatenate([split.judged_rows(part) for part in split.judged])
        groups = self.pair.aligned.groups[judged]
        joined = {name: np.concatenate([norms[name] for norms in errors]) for name in self.names}
        left_out = with_radius = None
        if self.settings.n_halves != 0:
            stacked = np.stack([joined[name] for name in self.names])
            left_out = delete_a_group(stacked, groups, seed=self.settings.seed)
            with_radius = delete_a_group_with_radius(
                stacked,
                judged,
                self._squares(),
                self.pair.aligned.groups,
                seed=self.settings.seed,
            )
        return SplitErrors(
            split="held-out",
            norms=joined,
            groups=groups,
            scales=self._scales(fitted[0]),
            n_fit_rows=self.pair.rest[split.judged[0]].n,
            maps=fitted[0],
            ica=self.ica_without(split.judged[0]),
            is_disjoint=self.pair.aligned.has_halves(split.judged[0]),
            left_out=left_out,
            with_radius=with_radius,
        )

    def _squares(self) -> FloatArray:
        """Return the squared distance of every target row from their mean."""
        total, rows = self.pair.total, self.pair.target
        centre = AffineMap("mean", np.zeros((total.target_dim,) * 2), total.mean_y)
        (distances,) = row_errors(rows, rows, [centre], **self.machine.limits("errors"))
        return distances**2

    def _over_starts(
        self, source: Rows, target: Rows, maps: PairMaps, part: int | None
    ) -> dict[str, FloatArray]:
        """Return the errors of all maps, those of ICA as means over all pairs of kept starts."""
        norms = self.norms(source, target, maps)
        ica = self.ica_without(part)
        names = [name for name in self.names if KIND_OF[name].needs_ica]
        # Equal content has equal starts, which are not independent: each pairs with itself.
        if ica is None or len(ica[0].fits) * len(ica[1].fits) == 1 or _are_equal(*ica):
            return norms
        moments, cost = self.pair.moments_without(part), self.settings.permutation_cost
        sums = {name: norms[name].copy() for name in names}
        shape = len(ica[0].fits), len(ica[1].fits)
        for i, j in np.ndindex(shape):
            if (i, j) != (0, 0):
                inputs = MapInputs(moments, IcaPair(ica[0].fits[i], ica[1].fits[j]), cost)
                others = self.norms(source, target, fit_maps(names, inputs))
                for name in names:
                    sums[name] += others[name]
        return norms | {name: total / (shape[0] * shape[1]) for name, total in sums.items()}

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
        scale = self.pair.scales.get(1) if space is None else None
        if scale is None:
            rows = self.pair.target if space is None else MappedRows(self.pair.target, space)
            scale = scale_of_rows(rows, self.settings.seed, self.machine)
        return scale.with_radius(self.pair.total, space)


def _are_equal(first: SpaceIca, second: SpaceIca) -> bool:
    return np.array_equal(first.fit.unmixing, second.fit.unmixing)
