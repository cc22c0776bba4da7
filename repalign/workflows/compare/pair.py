"""Compare one pair of sources: errors, intervals, nulls and what stands behind them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property

import numpy as np

from repalign.core.maps.affine import AffineMap
from repalign.core.maps.kinds import KIND_OF
from repalign.core.moments import PairMoments
from repalign.core.thread_choice import is_small, one_thread_if
from repalign.store.sources.source import EmbeddingSource
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
from repalign.workflows.compare.judge import PairFitter, SplitErrors
from repalign.workflows.compare.nulls import shuffle_pair
from repalign.workflows.compare.pair_data import PairData, read_pair
from repalign.workflows.compare.pairs import Pair
from repalign.workflows.compare.records import make_records
from repalign.workflows.compare.reports import report_of
from repalign.workflows.compare.results import ErrorRecord, PairReport
from repalign.workflows.compare.settings import CompareSettings, without_ica
from repalign.workflows.compare.similarity.pair import MeasureResult, measure_pair
from repalign.workflows.compare.similarity.records import MeasureRecord, measure_records
from repalign.workflows.compare.space import Scale, Space
from repalign.workflows.compare.views import digest
from repalign.workflows.engine.cache import cache_key
from repalign.workflows.machine import Machine
from repalign.workflows.study.resampled import Resampled, resampled_pair

# Settings that say which pairs there are, and change nothing of a pair.
CHOOSING = {"layers", "within", "max_pairs"}


@dataclass(frozen=True, eq=False)
class PairResult:
    """Records, report and in-sample maps of one direction of one pair."""

    records: tuple[ErrorRecord, ...]
    measures: tuple[MeasureRecord, ...]
    report: PairReport
    maps: Mapping[str, AffineMap]
    resampled: tuple[Resampled, ...] = ()


@dataclass(frozen=True, eq=False)
class PairTask:
    """One pair to compare, in one direction or both.

    Attributes:
        pair: The two views.
        settings: Conventions.
        halves: Half-samples for the intervals; None where there are none.
        keeps_maps: Whether the maps are part of the results.
    """

    pair: Pair
    settings: CompareSettings
    halves: HalfSamples | None
    keeps_maps: bool

    @cached_property
    def key(self) -> str:
        """Name of the results: all that they depend on or say."""
        pair = self.pair
        content = [view.key for view in pair.views]
        names = [
            (source.name, source.view, str(source.path), source.layer, dict(source.info))
            for source in (pair.source, pair.target)
        ]
        how = {name: value for name, value in asdict(self.settings).items() if name not in CHOOSING}
        report = json.dumps((names, asdict(pair.report)), default=str)
        rows = (pair.split_key, digest(pair.groups))
        return cache_key("pair", content, rows, report, how, self.keeps_maps)


def compare_pair(
    machine: Machine, task: PairTask, source: Space, target: Space
) -> tuple[PairResult, ...]:
    """Return all that is computed of two views together: one result for each direction."""
    pair, settings = task.pair, task.settings
    if settings.has_ica and not (source.ica and target.ica):  # a side does not vary
        settings = without_ica(settings)
    with one_thread_if(is_small(pair.n_rows, *pair.dims)):
        first, second = pair.views
        rows = first.loaded(second.dim, machine), second.loaded(first.dim, machine)
        data = read_pair(pair, (source, target), settings, machine, rows)
        samples = None
        if task.halves is not None and task.halves.has_ica:
            bundled = (
                replace(source, moments=source.bundles),
                replace(target, moments=target.bundles),
            )
            samples = read_pair(task.halves.pair, bundled, settings, machine, rows)
        elif task.halves is not None:
            samples = bundled_pair(data, task.halves, machine)
        task = replace(task, settings=settings)
        results = [_compare(data, samples, task, machine)]
        if settings.both_directions:
            back = None if samples is None else samples.reversed()
            results.append(_compare(data.reversed(), back, task, machine))
    return tuple(results)


def _compare(
    pair: PairData, samples: PairData | None, task: PairTask, machine: Machine
) -> PairResult:
    settings, halves = task.settings, task.halves
    names, notes = usable_maps(pair.aligned, settings)
    fitter = PairFitter(pair, names, settings, machine)
    judged = [fitter.in_sample()] if names else []
    if judged and fitter.split.judged:
        judged.append(fitter.held_out())
    if samples is not None and halves is not None and judged:
        judged = with_half_samples(judged, halves, samples, settings, machine)
    nulls = shuffle_pair(fitter) if names else None
    rotations = None
    if judged:
        rotations = rotation_null(fitter, first_scale(judged[0]).diameter.value)
    source, target = pair.aligned.source, pair.aligned.target
    records = tuple(
        record
        for errors in judged
        for record in make_records(
            errors, source, target, settings, nulls=nulls, rotations=rotations
        )
    )
    measured = []
    if settings.measures:
        bundles = None if halves is None else halves.bundles
        measured = list(measure_pair(pair, settings, machine, bundles))
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
    maps = {name: one.map for name, one in fitted.items() if task.keeps_maps}
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


def usable_maps(pair: Pair, settings: CompareSettings) -> tuple[list[str], list[str]]:
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
