"""Compare one pair of sources: errors, intervals, nulls and what stands behind them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from repalign.aliases import Rows
from repalign.core.maps.affine import AffineMap
from repalign.core.maps.kinds import KIND_OF
from repalign.core.moments import PairMoments
from repalign.core.thread_choice import is_small, one_thread_if
from repalign.store.sources.source import EmbeddingSource
from repalign.workflows.compare.aligned import AlignedPair
from repalign.workflows.compare.caveats.errors import (
    warn_of_components,
    warn_of_errors,
    warn_of_free_directions,
)
from repalign.workflows.compare.caveats.groups import warn_of_groups, warn_of_series
from repalign.workflows.compare.caveats.sources import warn_of_collapse, warn_of_sources
from repalign.workflows.compare.half_samples import (
    HalfSamples,
    bundled_pair,
    with_half_samples,
)
from repalign.workflows.compare.ica.rotations import rotation_null
from repalign.workflows.compare.ica.starts import forget_whitened
from repalign.workflows.compare.judge import PairFitter, SplitErrors
from repalign.workflows.compare.nulls import JudgedOrder, shuffle_pair
from repalign.workflows.compare.pair_data import IcaOfSides, PairData, read_pair
from repalign.workflows.compare.records import make_records
from repalign.workflows.compare.reports import report_of
from repalign.workflows.compare.results import ErrorRecord, PairReport
from repalign.workflows.compare.settings import CompareSettings
from repalign.workflows.compare.similarity.pair import MeasureResult, measure_pair
from repalign.workflows.compare.similarity.records import MeasureRecord, measure_records
from repalign.workflows.compare.spaces import Scale, SpreadOfSides
from repalign.workflows.machine import Machine
from repalign.workflows.study.resampled import Resampled, resampled_pair
from repalign.workflows.study.tiles import HELD, room_for_rows


@dataclass(frozen=True, eq=False)
class PairResult:
    """Records, report and in-sample maps of one direction of one pair."""

    records: tuple[ErrorRecord, ...]
    measures: tuple[MeasureRecord, ...]
    report: PairReport
    maps: Mapping[str, AffineMap]
    resampled: tuple[Resampled, ...] = ()


@dataclass(frozen=True, eq=False)
class Shared:
    """What of one direction of a pair others did, by number.

    Attributes:
        shuffles: Errors of all maps in orders of the rows.
        measures: Measures in orders of the rows.
    """

    shuffles: Mapping[str, JudgedOrder] = field(default_factory=dict)
    measures: Mapping[str, JudgedOrder] = field(default_factory=dict)

    def with_more(self, what: str, found: Mapping[str, Any]) -> "Shared":
        """Return it with more of one of these."""
        return replace(self, **{what: {**getattr(self, what), **found}})


@dataclass(frozen=True, eq=False)
class PairUnit:
    """All that is computed of two spaces together: maps, errors, nulls, in one direction or both.

    Attributes:
        key: Name of the work.
        aligned: The two spaces.
        moments: Of the parts of both, each alone.
        ica: Of both sides, by side and rows.
        spreads: How far apart the rows of the targets are.
        settings: Conventions.
        keeps_maps: Whether the maps are part of the result.
        shared: By direction what others did of it, where that was long enough.
        samples: Half-samples for the intervals; None where there are none.
        sample_moments: The moments of their bundles, of both sides alone.
        sample_ica: Their ICA, by side and rows.
    """

    key: str
    aligned: AlignedPair
    moments: tuple[tuple[PairMoments, ...], tuple[PairMoments, ...]]
    ica: IcaOfSides
    spreads: SpreadOfSides
    settings: CompareSettings
    keeps_maps: bool = True
    shared: Mapping[int, Shared] = field(default_factory=dict)
    samples: HalfSamples | None = None
    sample_moments: tuple[tuple[PairMoments, ...], tuple[PairMoments, ...]] = ((), ())
    sample_ica: IcaOfSides = field(default_factory=dict)
    stage = "pairs"

    @property
    def directions(self) -> range:
        """The directions that are compared: 0 is forth, 1 is back."""
        return range(2 if self.settings.both_directions else 1)

    def run(self, machine: Machine) -> list[PairResult]:
        """Compare them."""
        forget_whitened()
        with one_thread_if(is_small(self.aligned.n_rows, *self.aligned.dims)):
            forth = self.held(machine)
            samples = self.held_samples(forth, machine)
            results = []
            for back in self.directions:
                if back:
                    forth = forth.reversed()
                    samples = None if samples is None else samples.reversed()
                results.append(_compare(forth, samples, self, back, machine))
        if self.keeps_maps:
            return results
        return [replace(result, maps={}) for result in results]

    def held(self, machine: Machine) -> PairData:
        """Read both sides, whose rows then stay in memory where there is room."""
        rows = self._rows(machine)
        pair = read_pair(self.aligned, self.moments, self.ica, self.settings, machine, rows)
        return replace(pair, spreads=self.spreads)

    def held_samples(self, pair: PairData, machine: Machine) -> PairData | None:
        """Read both sides with the moments of all bundles; None where there are none."""
        if self.samples is None:
            return None
        if not self.samples.has_ica:
            return bundled_pair(pair, self.samples, machine)
        aligned, rows = self.samples.aligned, self._rows(machine)
        moments, ica = self.sample_moments, self.sample_ica
        return read_pair(aligned, moments, ica, self.settings, machine, rows)

    def _rows(self, machine: Machine) -> tuple[Rows, Rows]:
        room = room_for_rows(self.aligned.n_rows, self.aligned.dims, machine)
        first, second = self.aligned.spaces
        return HELD.rows(first, room), HELD.rows(second, room)


def _compare(
    pair: PairData, samples: PairData | None, unit: PairUnit, back: int, machine: Machine
) -> PairResult:
    settings, shared = unit.settings, unit.shared.get(back, Shared())
    names, notes = usable_maps(pair.aligned, settings)
    fitter = PairFitter(pair, names, settings, machine)
    judged = [fitter.in_sample()] if names else []
    if judged and fitter.split.judged:
        judged.append(fitter.held_out())
    if samples is not None and unit.samples is not None and judged:
        judged = with_half_samples(judged, unit.samples, samples, settings, machine)
    nulls = shuffle_pair(fitter, shared.shuffles) if names else None
    rotations = None
    if judged:
        rotations = rotation_null(fitter, first_scale(judged[0]).diameter.value)
    source, target = (space.source for space in pair.aligned.spaces)
    records = tuple(
        record
        for errors in judged
        for record in make_records(
            errors, source, target, settings, nulls=nulls, rotations=rotations
        )
    )
    measured = []
    if settings.measures:
        bundles = None if unit.samples is None else unit.samples.bundles
        measured = list(measure_pair(pair, settings, machine, shared.measures, bundles))
    collapse = warn_of_collapse(pair.total, source.name, target.name)
    numbers = [
        *(_ica_warnings(judged[0]) if judged else ()),
        *warn_of_groups(
            judged,
            [values for each in measured for values in each.values],
            wants_intervals=settings.n_halves != 0,
        ),
        *(warn_of_series(pair) if settings.n_halves != 0 or settings.n_null != 0 else ()),
        *(() if nulls is None else nulls.notes),
        *warn_of_free_directions(judged, pair.total),
        *warn_of_errors(records, rotations, _width(pair.total)),
        *(warn_of_components(judged[0]) if judged else ()),
        *(note for each in measured for note in each.notes),
    ]
    warnings = [
        *(notes if settings.maps else ()),
        *pair.aligned.report.warnings,
        *warn_of_sources(source, target),
        *(collapse or numbers),
    ]
    scale = fitter.scale() if not judged else first_scale(judged[0])
    report = report_of(pair, judged, scale, nulls=nulls, rotations=rotations)
    report = replace(report, warnings=tuple(dict.fromkeys(warnings)))
    fitted = judged[-1 if settings.map_rows == "training" else 0].maps.by_name if judged else {}
    maps = {name: one.map for name, one in fitted.items()}
    return PairResult(
        records,
        _in_order(measured, source, target, settings),
        report,
        maps,
        tuple(resampled_pair(pair.aligned.index, judged, nulls, measured)),
    )


def _width(moments: PairMoments) -> float:
    """Return how much wider the source is than the target, by their rms radii; 1 of a point."""
    source, target = np.trace(moments.sxx), np.trace(moments.syy)
    return float(np.sqrt(source / target)) if source > 0 and target > 0 else 1.0


def _in_order(
    measured: Sequence[MeasureResult],
    source: EmbeddingSource,
    target: EmbeddingSource,
    settings: CompareSettings,
) -> tuple[MeasureRecord, ...]:
    """Return the records of measures by split, in the order in which they were asked for."""
    found = [
        record for each in measured for record in measure_records(each, source, target, settings)
    ]
    place = {name: number for number, name in enumerate(settings.measures)}
    found.sort(key=lambda record: (record.split != "in-sample", place[record.measure]))
    return tuple(found)


def first_scale(errors: SplitErrors) -> Scale:
    """Return the denominators in the space of the target."""
    return next(errors.scales[name] for name in errors.scales if not KIND_OF[name].in_components)


def usable_maps(pair: AlignedPair, settings: CompareSettings) -> tuple[list[str], list[str]]:
    """Return the maps that these widths allow, and why others are left out."""
    widths = pair.dims
    if widths[0] == widths[1]:
        return list(settings.maps), []
    note = f"widths differ ({widths[0]} and {widths[1]}), policy {settings.width_policy}: "
    if settings.width_policy == "pca":
        note += f"the wider side is cut to its {min(widths)} leading principal components"
        return list(settings.maps), [note]
    if any(name.startswith("permutation") for name in settings.maps):
        note += (
            f"the permutation matches {min(widths)} columns and predicts the others by their mean"
        )
    else:
        note += "the narrower side is padded with zeros"
    names = [name for name in settings.maps if not KIND_OF[name].needs_equal_widths]
    for name in settings.maps:
        note += "" if name in names else f"; the {name} map is left out"
    return names, [note]


def _ica_warnings(errors: SplitErrors) -> list[str]:
    if errors.ica is None:
        return []
    return [warning for side in errors.ica for warning in side.fit.warnings]
