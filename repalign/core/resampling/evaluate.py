"""Evaluate a sample: every map or measure in-sample and on rows that fitted nothing.

An evaluator is called with a sample as it is, shuffled, or halved: nulls and intervals are what it
gives on changed samples.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Float

from repalign.core.affine import AffineMap, MappedRows
from repalign.core.maps import (
    KIND_OF,
    AssignmentCost,
    FittedMap,
    IcaPair,
    PairMaps,
    fit_linear_from_rows,
    fit_maps,
    is_ill_conditioned,
)
from repalign.core.measures import Evidence, FittingMoments, Measure, Reads
from repalign.core.neighbours import HeldRows, hold
from repalign.core.resampling.sample import Sample
from repalign.core.row_errors import row_errors
from repalign.core.rows import DEFAULT_MEMORY, Limits

# Values in-sample and held-out by map or measure; lower is closer. None held-out without a split.
Values = tuple[Sequence[float], Sequence[float]]
RowErrors = dict[str, Float[np.ndarray, " rows"]]


@dataclass(frozen=True, eq=False)
class MapEvaluator:
    """Fits maps on the rows without a part, and judges them on the rows of the part.

    Attributes:
        names: Of the maps.
        cost: What the assignment of columns maximises.
        limits: Memory, device and progress.
    """

    names: tuple[str, ...]
    cost: AssignmentCost = "inner-product"
    limits: Limits = field(default_factory=Limits)

    def __call__(self, sample: Sample) -> Values:
        """Return the mean errors of all maps."""
        means = []
        for part in (None, *sample.split.judged):
            maps = fit_maps(
                self.names, sample.moments_without(part), self.ica(sample, part), self.cost
            )
            errors = self.errors(sample, part, maps)
            means.append([float(errors[name].mean()) for name in self.names])
        if not sample.split.judged:
            return means[0], ()
        return means[0], np.average(means[1:], axis=0, weights=sample.n_of_judged_parts).tolist()

    @property
    def needs_ica(self) -> bool:
        """Whether any of the maps is made from the ICA of both sides."""
        return any(KIND_OF[name].needs_ica for name in self.names)

    def only(self, names: Sequence[str]) -> "MapEvaluator":
        """Return an evaluator of some of the maps."""
        return replace(self, names=tuple(name for name in self.names if name in names))

    def ica(
        self, sample: Sample, part: int | None, starts: tuple[int, int] = (0, 0)
    ) -> IcaPair | None:
        """Return one start of the ICA of each side without a part; None where no map needs it."""
        ica = sample.ica.get(part) if self.needs_ica else None
        return None if ica is None else (ica[0][starts[0]], ica[1][starts[1]])

    def means(self, sample: Sample, part: int | None) -> list[float]:
        """Return the mean errors of maps fitted without a part, on the part (None: on all rows)."""
        maps = fit_maps(self.names, sample.moments_without(part), self.ica(sample, part), self.cost)
        errors = self.errors(sample, part, maps)
        return [float(errors[name].mean()) for name in self.names]

    def with_exact_linear(self, maps: PairMaps, sample: Sample, part: int | None) -> PairMaps:
        """Return maps with least squares from the rows, where moments are not enough."""
        moments = sample.moments_without(part)
        if "linear" not in self.names or not is_ill_conditioned(moments):
            return maps
        linear = fit_linear_from_rows(*sample.rows_without(part), moments, **self.limits)
        return replace(maps, by_name=maps.by_name | {"linear": FittedMap(linear)})

    def errors(self, sample: Sample, part: int | None, maps: PairMaps) -> RowErrors:
        """Return ‖prediction − target‖ of every row of a part, one pass for each target space."""
        source, target = sample.rows_in(part)
        spaces: dict[int, tuple[AffineMap | None, list[str]]] = {}
        for name, fitted in maps.by_name.items():
            spaces.setdefault(id(fitted.target_space), (fitted.target_space, []))[1].append(name)
        errors: RowErrors = {}
        for space, names in spaces.values():
            rows = target if space is None else MappedRows(target, space)
            judged = [maps.by_name[name].map for name in names]
            norms = row_errors(source, rows, judged, **self.limits)
            errors |= dict(zip(names, norms, strict=True))
        return errors

    def errors_over_starts(self, sample: Sample, part: int | None, maps: PairMaps) -> RowErrors:
        """Return the same with those of ICA maps as means over all pairs of starts."""
        errors, ica = self.errors(sample, part, maps), sample.ica.get(part)
        names = [name for name in self.names if KIND_OF[name].needs_ica]
        # Equal content has equal starts, which are not independent: each pairs with itself.
        if ica is None or not names or np.array_equal(ica[0][0].unmixing, ica[1][0].unmixing):
            return errors
        shape = len(ica[0]), len(ica[1])
        sums = {name: errors[name].copy() for name in names}
        of_ica = self.only(names)
        for starts in list(np.ndindex(shape))[1:]:
            moments, pair = sample.moments_without(part), of_ica.ica(sample, part, starts)
            more = of_ica.errors(sample, part, fit_maps(names, moments, pair, self.cost))
            for name in names:
                sums[name] += more[name]
        return errors | {name: total / (shape[0] * shape[1]) for name, total in sums.items()}


@dataclass(frozen=True, eq=False)
class MeasureEvaluator:
    """Computes measures that read the same of the same rows.

    Attributes:
        measures: Measures of one kind of reading.
        seed: Of ties among nearest rows.
        memory_bytes: Memory for distances.
    """

    measures: tuple[Measure, ...]
    seed: int = 0
    memory_bytes: int = DEFAULT_MEMORY

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the measures."""
        return tuple(measure.name for measure in self.measures)

    @property
    def reads(self) -> Reads:
        """What the measures read."""
        return self.measures[0].reads

    def __call__(self, sample: Sample) -> Values:
        """Return all measures as errors: of one that grows with similarity its negative."""
        signs = np.array([-measure.sign for measure in self.measures])
        in_sample = signs * self.values(self.evidence(sample, None))
        if not sample.split.judged:
            return in_sample.tolist(), ()
        return in_sample.tolist(), (signs * self.held_out(sample)).tolist()

    def held_out(self, sample: Sample) -> Float[np.ndarray, " measures"]:
        """Return the means over the parts that judge, by their rows."""
        by_part = [self.values(self.evidence(sample, part)) for part in sample.split.judged]
        return np.average(by_part, axis=0, weights=sample.n_of_judged_parts)

    def values(self, evidence: Evidence) -> Float[np.ndarray, " measures"]:
        """Return every measure."""
        return np.array([measure.value(evidence) for measure in self.measures])

    def evidence(self, sample: Sample, part: int | None) -> Evidence:
        """Return what measures are computed from: in-sample, or by a part the others fitted."""
        base = sample.base or sample
        fit: FittingMoments | None = base.fits.get(part)
        if fit is None:
            fit = base.fits[part] = FittingMoments.of(base.moments_without(part))
        if sample.order is not None:
            fit = fit.paired_by(sample.moments_without(part).sxy)
        if part is None:
            return Evidence(fit, rows=self._held(sample, None))
        judging, fitting = self._held(sample, part), self._held(sample, part, others=True)
        return Evidence(fit, sample.moments[part], judging, fitting)

    def _held(self, sample: Sample, part: int | None, *, others: bool = False) -> HeldRows | None:
        """Return the rows of a part, or all others, in memory; found once for all orders."""
        if self.reads == "moments":
            return None
        known, split = sample.known, sample.split
        if None not in known:
            base, n = sample.base or sample, sample.n_rows
            known[None] = hold(
                base.source.read(0, n),
                base.target.read(0, n),
                memory_bytes=self.memory_bytes,
                seed=self.seed,
            )
        held: HeldRows = known[None]
        if part is None:
            return held if sample.order is None else held.with_target_in(sample.order)
        numbers = split.fitting_rows(part) if others else split.judged_rows(part)
        key = (part, others)
        if key not in known:
            known[key] = held.chosen(numbers)
        if sample.order is None:
            return known[key]
        return known[key].with_target_in(np.searchsorted(numbers, sample.order[numbers]))


Evaluator = MapEvaluator | MeasureEvaluator
"""Computes values of a sample; all statistics are functions of one and of samples."""
