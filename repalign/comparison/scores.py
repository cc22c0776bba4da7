"""What maps and measures give on the rows of a pair: in-sample and held-out, with intervals."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from repalign.aliases import FloatArray, IntArray
from repalign.comparison.pairs import Pair
from repalign.comparison.settings import CompareSettings
from repalign.comparison.space import Scale, SpaceIca, scale_of_rows
from repalign.core.affine import AffineMap, MappedRows
from repalign.core.maps import KIND_OF, PairMaps, fit_maps
from repalign.core.measures import Evidence
from repalign.core.moments import moments_by_bundle
from repalign.core.resampling.evaluate import MapEvaluator, MeasureEvaluator, RowErrors
from repalign.core.resampling.intervals import (
    ANYWHERE,
    POSITIVE,
    Interval,
    Range,
    Replicates,
    Statistic,
    bundle_of_rows,
    count_groups,
    delete_a_group,
    delete_a_group_with_radius,
    effective_groups,
)
from repalign.core.resampling.nulls import Null
from repalign.core.resampling.rotations import RotationNull
from repalign.core.resampling.sample import Sample
from repalign.core.row_errors import ica_efficiency, row_errors
from repalign.core.scale import rms_radius
from repalign.engine.machine import Machine

# ICA of source and target, by the part of the split that is left out.
IcaByPart = dict[int | None, tuple[SpaceIca, SpaceIca]]


@dataclass(frozen=True, eq=False)
class Scores:
    """Values of maps or measures on the rows of one kind of split.

    Attributes:
        split: ``in-sample`` or ``held-out``.
        names: Of the maps or measures.
        values: Mean error norms of maps, values of measures; NaN where these are not defined.
        groups: Group of every row that judges.
        n_fit_rows: Rows that fit what is fitted.
        left_out: Held-out values without each group; None for no interval.
        halves: The values on half-samples, of maps with the radius of the target behind.
        nulls: By name in ``NULLS``, what the shuffles of the pairing give, as errors: of a measure
            that grows with similarity its negative.
    """

    split: str
    names: tuple[str, ...]
    values: FloatArray
    groups: IntArray
    n_fit_rows: int
    left_out: Replicates | None = None
    halves: Replicates | None = None
    nulls: Mapping[str, Null] = field(default_factory=dict)

    @property
    def n_rows(self) -> int:
        """Rows that judge."""
        return self.groups.size

    @property
    def n_groups(self) -> int:
        """Groups that judge."""
        return int(np.count_nonzero(np.bincount(self.groups)))


@dataclass(frozen=True, eq=False, kw_only=True)
class MapScores(Scores):
    """Errors of maps.

    Attributes:
        scales: Denominators by map.
        maps: The fitted maps; of the first fold where there are several.
        ica: The two ICA fits behind them, with their agreement over starts.
        is_disjoint: Whether these were fitted on disjoint halves of the rows.
        with_radius: Held-out values without each group of all rows, and the radius behind.
        rotations: Null of the held-out efficiency; None where there is none.
    """

    scales: Mapping[str, Scale]
    maps: PairMaps
    ica: tuple[SpaceIca, SpaceIca] | None
    is_disjoint: bool
    with_radius: Replicates | None = None
    rotations: RotationNull | None = None

    @cached_property
    def diameters(self) -> FloatArray:
        """Denominators by map."""
        return np.array([self.scales[name].diameter.value for name in self.names])

    @property
    def has_components(self) -> bool:
        """Whether ICA has found anything on either side; where that is not known it may have."""
        return self.ica is None or any(side.fit.n_identifiable != 0 for side in self.ica)

    def error_interval(self, number: int) -> Interval:
        """Return the interval of the error of one map, given the diameter."""
        diameter = self.diameters[number]
        return self._interval(number, lambda values: _ratio(values[..., number], diameter))

    def radius_interval(self, number: int) -> Interval:
        """Return the interval of the error over the RMS radius.

        None for the mean, whose ratio hardly varies, and for errors in another space.
        """
        name = self.names[number]
        if name == "mean" or KIND_OF[name].in_components:
            return NO_INTERVAL
        return self._interval(
            number, lambda values: _ratio(values[..., number], values[..., -1]), over_radius=True
        )

    def efficiency(self, name: str) -> tuple[float | None, Interval]:
        """Return the efficiency of an ICA map, with an interval where the fits share no rows."""
        if not KIND_OF[name].needs_ica or not {"permutation", "rigid"} <= set(self.names):
            return None, NO_INTERVAL
        if not self.has_components:
            return None, NO_INTERVAL
        columns = [self.names.index(other) for other in ("permutation", "rigid", name)]

        def of(values: FloatArray) -> FloatArray:
            over = _ratio(values[..., columns], self.diameters[columns])
            permutation, rigid, ica = (over[..., place] for place in range(3))
            return ica_efficiency(permutation, rigid, ica)

        value = float(of(self.values))
        if not np.isfinite(value):
            return None, NO_INTERVAL
        if not self.is_disjoint or self.halves is None:
            return value, NO_INTERVAL
        return value, self.halves.interval(of, within=ANYWHERE)

    def n_halves(self, number: int) -> int | None:
        """Return the half-samples behind the interval of a map; None where it has other ones."""
        halves = self.halves
        if halves is None or not np.isfinite(halves.draws[:, number]).all():
            return None
        return len(halves.draws) if self.is_halved(number) else None

    def is_halved(self, number: int) -> bool:
        """Whether an interval follows from half-samples: in-sample, and of all that needs ICA."""
        return self.split == "in-sample" or KIND_OF[self.names[number]].needs_ica

    def _interval(self, number: int, of: Statistic, *, over_radius: bool = False) -> Interval:
        replicates = self.with_radius if over_radius else self.left_out
        if self.is_halved(number):
            replicates = self.halves
        within: Range = ANYWHERE if self.split == "in-sample" else POSITIVE
        return NO_INTERVAL if replicates is None else replicates.interval(of, within=within)


NO_INTERVAL = Interval(float("nan"), float("nan"))


def _ratio(values: FloatArray, scale: FloatArray | float) -> FloatArray:
    """Divide; where the scale is zero nothing varies, and the ratio is undefined."""
    scales = np.asarray(scale, dtype=np.float64)
    return np.divide(values, np.where(scales > 0, scales, np.nan))


def score_maps(
    evaluate: MapEvaluator,
    sample: Sample,
    pair: Pair,
    ica: IcaByPart,
    in_space: Callable[[AffineMap | None], Scale],
    settings: CompareSettings,
) -> list[MapScores]:
    """Return the errors of all maps in-sample and, where parts judge, held-out."""
    names, by_part, fitted = evaluate.names, list[RowErrors](), list[PairMaps]()
    for part in (None, *sample.split.judged):
        starts = evaluate.ica(sample, part)
        maps = fit_maps(names, sample.moments_without(part), starts, evaluate.cost)
        maps = evaluate.with_exact_linear(maps, sample, part)
        fitted.append(maps)
        by_part.append(evaluate.errors_over_starts(sample, part, maps))
    scores = [
        MapScores(
            "in-sample",
            names,
            np.array([float(by_part[0][name].mean()) for name in names]),
            sample.groups,
            sample.total.n,
            scales=scales_of_maps(fitted[0], in_space),
            maps=fitted[0],
            ica=ica.get(None),
            is_disjoint=False,
        )
    ]
    if not sample.split.judged:
        return scores
    joined = np.stack([np.concatenate([errors[name] for errors in by_part[1:]]) for name in names])
    judged = np.concatenate([sample.split.judged_rows(part) for part in sample.split.judged])
    groups = sample.groups[judged]
    left_out = with_radius = None
    if settings.n_halves != 0:
        left_out = delete_a_group(joined, groups, seed=settings.seed)
        # of every target row from their mean
        total = sample.total
        centre = AffineMap("mean", np.zeros((total.target_dim,) * 2), total.mean_y)
        (distances,) = row_errors(sample.target, sample.target, [centre], **evaluate.limits)
        with_radius = delete_a_group_with_radius(
            joined, judged, distances**2, sample.groups, seed=settings.seed
        )
    first = sample.split.judged[0]
    held_out = MapScores(
        "held-out",
        names,
        np.array([float(errors.mean()) for errors in joined]),
        groups,
        sample.moments_without(first).n,
        left_out,
        scales=scales_of_maps(fitted[1], in_space),
        maps=fitted[1],
        ica=ica.get(first),
        is_disjoint=pair.has_halves(first),
        with_radius=with_radius,
    )
    return [*scores, held_out]


def scale_of_target(
    sample: Sample, known: Scale | None, machine: Machine, seed: int, space: AffineMap | None = None
) -> Scale:
    """Return the denominators of errors in the target's space, or in one mapped from it.

    They are of all target rows of the pair, in-sample and held-out alike.

    Args:
        sample: The rows.
        known: What is known of the target in its own space.
        machine: Memory and device.
        seed: Of the rows whose distances are looked at.
        space: The map to the space; None for the target's own.
    """
    if space is not None:
        known = scale_of_rows(MappedRows(sample.target, space), seed, machine)
    elif known is None:
        known = scale_of_rows(sample.target, seed, machine)
    return replace(known, rms_radius=rms_radius(sample.total, space))


def scales_of_maps(
    maps: PairMaps, in_space: Callable[[AffineMap | None], Scale]
) -> dict[str, Scale]:
    """Return the denominators of every map: those of the space in which its error lives."""
    by_space: dict[int, Scale] = {}
    for fitted in maps.by_name.values():
        space = fitted.target_space
        if id(space) not in by_space:
            by_space[id(space)] = in_space(space)
    return {name: by_space[id(fitted.target_space)] for name, fitted in maps.by_name.items()}


def score_measures(evaluate: MeasureEvaluator, sample: Sample, n_left_out: int) -> list[Scores]:
    """Return the measures in-sample and, where parts judge, held-out.

    Args:
        evaluate: Of the measures.
        sample: The rows.
        n_left_out: Groups, or bundles of them, that are left out in turn; 0 for no interval.
    """
    names, groups = evaluate.names, sample.groups
    values = evaluate.values(evaluate.evidence(sample, None))
    scores = [Scores("in-sample", names, values, groups, sample.n_rows)]
    split = sample.split
    if not split.judged:
        return scores
    judged = np.concatenate([split.judged_rows(part) for part in split.judged])
    groups = groups[judged]
    values, left_out = evaluate.held_out(sample), None
    if n_left_out:
        bundle = bundle_of_rows(groups, n_left_out, seed=evaluate.seed)
        left_out = Replicates(
            values,
            _measures_without(evaluate, sample, bundle),
            "delete-a-group",
            count_groups(groups),
            effective_groups(np.bincount(bundle)),
        )
    n_fit_rows = sample.moments_without(split.judged[0]).n
    return [*scores, Scores("held-out", names, values, groups, n_fit_rows, left_out)]


def _measures_without(evaluate: MeasureEvaluator, sample: Sample, bundle: IntArray) -> FloatArray:
    """Return held-out measures without each bundle of judged rows; what was fitted stays."""
    whole = [evaluate.evidence(sample, part) for part in sample.split.judged]
    n_bundles = int(bundle.max()) + 1
    values = np.tile(np.stack([evaluate.values(evidence) for evidence in whole]), (n_bundles, 1, 1))
    weights = np.tile(sample.n_of_judged_parts.astype(float), (n_bundles, 1))
    for number, place, evidence in _without_bundles(sample, whole, bundle):
        values[number, place] = evaluate.values(evidence)
        weights[number, place] = evidence.moments.n
    share = weights / np.maximum(weights.sum(axis=1, keepdims=True), 1)
    return np.einsum("bp,bpm->bm", share, np.where(share[:, :, None] > 0, values, 0.0))


def _without_bundles(
    sample: Sample, whole: Sequence[Evidence], bundle: IntArray
) -> Iterator[tuple[int, int, Evidence]]:
    """Yield each part without each bundle that has rows in it: bundle, place of the part."""
    start = 0
    for place, (part, evidence) in enumerate(zip(sample.split.judged, whole, strict=True)):
        positions = sample.split.judged_rows(part)
        inside = bundle[start : start + positions.size]
        start += positions.size
        labels, member = np.unique(inside, return_inverse=True)
        moments = moments_by_bundle(sample.source, sample.target, member, among=positions)
        for number, taken in moments:
            if taken.n == evidence.moments.n:
                continue
            rows = evidence.rows
            if rows is not None:
                rows = rows.chosen(np.flatnonzero(member != number))
            left = evidence.moments.subtract(taken)
            yield int(labels[number]), place, Evidence(evidence.fit, left, rows, evidence.fit_rows)
