"""Compare one pair of views: scores, nulls and intervals, records, warnings."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial

import numpy as np

from repalign.aliases import Rows
from repalign.comparison.draws import (
    EFFICIENCY_MAPS,
    HalfSamples,
    bundle_moments,
    halves_of_maps,
    n_rotations,
    null_rows,
    rotation_null,
    shuffle_cost,
    shuffle_map,
    shuffle_plans,
    shuffles_wanted,
    to_nulls,
)
from repalign.comparison.measured import Measured, measure_pair
from repalign.comparison.pairs import Pair, input_places
from repalign.comparison.records import make_records, measure_records, report_of
from repalign.comparison.results import ErrorRecord, MeasureRecord, PairReport
from repalign.comparison.scores import (
    IcaByPart,
    MapScores,
    ica_rows,
    scale_of_target,
    score_maps,
)
from repalign.comparison.search import Resampled, resampled_pair
from repalign.comparison.settings import CompareSettings, without_ica
from repalign.comparison.space import Scale, Space, leading_components, map_source
from repalign.comparison.warnings import (
    warn_of_collapse,
    warn_of_components,
    warn_of_errors,
    warn_of_free_directions,
    warn_of_groups,
    warn_of_series,
    warn_of_sources,
)
from repalign.core.affine import AffineMap, MappedRows
from repalign.core.device import is_small, one_thread_if
from repalign.core.maps import KIND_OF
from repalign.core.moments import PairMoments, Parts, cross_moments
from repalign.core.resampling.evaluate import MapEvaluator
from repalign.core.resampling.nulls import permutation_null
from repalign.core.resampling.sample import Sample
from repalign.engine.cache import cache_key, digest
from repalign.engine.engine import Engine
from repalign.engine.machine import Machine
from repalign.store.source import EmbeddingSource

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


@dataclass(frozen=True, eq=False)
class Direction:
    """One direction of a pair, ready to be evaluated.

    Attributes:
        pair: Source and target in this direction.
        sample: Its rows, moments and ICA.
        spaces: What was computed of source and target alone.
        bundles: Moments of the bundles that half-samples are made of, if they are held.
        key: Name of all that its numbers depend on.
    """

    pair: Pair
    sample: Sample
    spaces: tuple[Space, Space]
    bundles: tuple[PairMoments, ...]
    key: str

    @property
    def ica(self) -> IcaByPart:
        """The ICA of both sides, by the part that is left out."""
        return ica_by_part(self.pair, self.spaces)

    def reversed(self) -> "Direction":
        """Return the opposite direction."""
        pair, spaces = self.pair.reversed(), self.spaces[::-1]
        sample = with_ica(self.sample.reversed(), pair, spaces)
        bundles = tuple(moments.swapped() for moments in self.bundles)
        return Direction(pair, sample, spaces, bundles, f"{self.key} back")


def compare_pair(
    machine: Machine, task: PairTask, source: Space, target: Space, engine: Engine | None = None
) -> tuple[PairResult, ...]:
    """Return all that is computed of two views together: one result for each direction.

    ``engine`` runs the shuffles.
    """
    pair, settings, engine = task.pair, task.settings, engine or Engine()
    if settings.has_ica and not (source.ica and target.ica):  # a side does not vary
        task = replace(task, settings=without_ica(settings))
    with one_thread_if(is_small(pair.n_rows, *pair.dims)):
        forth = read_pair(machine, task, (source, target))
        results = [compare_direction(forth, task, machine, engine)]
        if settings.both_directions:
            results.append(compare_direction(forth.reversed(), task, machine, engine))
    return tuple(results)


def read_pair(machine: Machine, task: PairTask, spaces: tuple[Space, Space]) -> Direction:
    """Read what two views need together: one pass for cross products, one more for bundles."""
    pair, halves = task.pair, task.halves
    first, second = pair.views
    rows = first.loaded(second.dim, machine), second.loaded(first.dim, machine)
    moments = _moments(rows, pair, (spaces[0].moments, spaces[1].moments), machine)
    sample = Sample(
        *rows,
        split=pair.split,
        groups=pair.groups,
        places=input_places(pair.index)[0],
        is_ordered=pair.is_ordered,
        moments=moments,
    )
    bundles: tuple[PairMoments, ...] = ()
    if halves is not None and halves.has_ica:
        bundles = _moments(rows, halves.pair, (spaces[0].bundles, spaces[1].bundles), machine)
    width = pair.common_width(task.settings)
    if width is not None:
        sample, bundles = _cut(sample, bundles, width)
    if halves is not None and not halves.has_ica:
        bundles = bundle_moments(sample, halves.bundles, machine)
    sample = with_ica(sample, pair, spaces)
    return Direction(pair, sample, spaces, bundles, task.key)


def _moments(
    rows: tuple[Rows, Rows],
    pair: Pair,
    known: tuple[tuple[PairMoments, ...], tuple[PairMoments, ...]],
    machine: Machine,
) -> tuple[PairMoments, ...]:
    parts = Parts(pair.split.part_of_row, pair.split.n_parts)
    return cross_moments(*rows, parts, known, **machine.limits("moments"))


def _cut(
    sample: Sample, bundles: tuple[PairMoments, ...], width: int
) -> tuple[Sample, tuple[PairMoments, ...]]:
    """Replace the wider side by its leading principal components."""
    if sample.dims[0] <= width:
        swapped = tuple(moments.swapped() for moments in bundles)
        sample, bundles = _cut(sample.reversed(), swapped, width)
        return sample.reversed(), tuple(moments.swapped() for moments in bundles)
    cut = leading_components(sample.total, width)
    moments = tuple(map_source(part, cut) for part in sample.moments)
    sample = replace(sample, source=MappedRows(sample.source, cut), moments=moments)
    return sample, tuple(map_source(part, cut) for part in bundles)


def ica_by_part(pair: Pair, spaces: tuple[Space, Space]) -> IcaByPart:
    """Return the ICA of both sides by the part that is left out; nothing where there is none."""
    if not (spaces[0].ica and spaces[1].ica):
        return {}
    return {
        part: (spaces[0].ica[ica_rows(pair, 0, part)], spaces[1].ica[ica_rows(pair, 1, part)])
        for part in (None, *pair.split.judged)
    }


def with_ica(sample: Sample, pair: Pair, spaces: tuple[Space, Space]) -> Sample:
    """Return a sample with the starts of its ICA."""
    ica = ica_by_part(pair, spaces)
    return replace(sample, ica={part: (a.fits, b.fits) for part, (a, b) in ica.items()})


def compare_direction(
    direction: Direction, task: PairTask, machine: Machine, engine: Engine
) -> PairResult:
    """Return what is computed of one direction of a pair."""
    pair, sample, settings = direction.pair, direction.sample, task.settings
    halves, source, target = task.halves, pair.source, pair.target
    names, notes = usable_maps(pair, settings)
    evaluate = MapEvaluator(tuple(names), settings.permutation_cost, machine.limits("errors"))
    in_space = partial(scale_of_target, sample, direction.spaces[1].scale, machine, settings.seed)
    scores, nulls, rotations = list[MapScores](), None, None
    map_shuffles = shuffle_map(engine, machine)
    if names:
        has_intervals = settings.n_halves != 0
        scores = score_maps(
            evaluate,
            sample,
            pair,
            direction.ica,
            in_space,
            has_intervals=has_intervals,
            seed=settings.seed,
        )
        # Without progress: draws are many, short, and sent to other processes.
        quiet = replace(
            evaluate, limits={"memory_bytes": machine.memory_bytes, "device": machine.device}
        )
        if halves is not None:
            scores = halves_of_maps(
                quiet, sample, scores, halves, direction.bundles, direction.spaces
            )
        rows, n_shuffles = rows_of_null(quiet, sample, settings, machine)
        if rows is not None:
            drawn = {
                kind: plan
                if isinstance(plan, str)
                else permutation_null(
                    quiet,
                    rows,
                    plan,
                    n_shuffles=n_shuffles,
                    seed=settings.seed,
                    name=direction.key,
                    map=map_shuffles,
                )
                for kind, plan in shuffle_plans(rows, settings).items()
            }
            nulls = to_nulls(quiet.names, drawn)
        diameter = first_scale(scores[0]).diameter.value
        if has_rotations(quiet, pair, diameter):
            n_draws = n_rotations(sample, settings)
            if n_draws:
                rotations = rotation_null(quiet, sample, n_draws, diameter, settings.seed)
    records = tuple(
        record
        for of_split in scores
        for record in make_records(
            of_split, source, target, settings, nulls=nulls, rotations=rotations
        )
    )
    bundles = None if halves is None else halves.bundles
    measured = list(
        measure_pair(
            sample,
            settings,
            machine,
            bundles,
            direction.bundles,
            name=direction.key,
            map=map_shuffles,
        )
    )
    total = sample.total
    collapse = warn_of_collapse(total, source.name, target.name)
    wants_trust = settings.n_halves != 0 or settings.n_null != 0
    numbers = [
        *(_ica_warnings(scores[0]) if scores else ()),
        *warn_of_groups(
            scores,
            [of_split for kind in measured for of_split in kind.scores],
            wants_intervals=settings.n_halves != 0,
        ),
        *(warn_of_series(sample) if wants_trust else ()),
        *(() if nulls is None else nulls.notes),
        *warn_of_free_directions(scores, total),
        *warn_of_errors(records, rotations, _width(total)),
        *(warn_of_components(scores[0]) if scores else ()),
        *(note for kind in measured for note in kind.notes),
    ]
    warnings = [
        *(notes if settings.maps else ()),
        *pair.report.warnings,
        *warn_of_sources(source, target),
        *(collapse or numbers),
    ]
    scale = first_scale(scores[0]) if scores else in_space(None)
    report = report_of(pair, total, scores, scale, nulls=nulls, rotations=rotations)
    report = replace(report, warnings=tuple(dict.fromkeys(warnings)))
    fitted = scores[-1 if settings.map_rows == "training" else 0].maps.by_name if scores else {}
    return PairResult(
        records,
        _in_order(measured, source, target, settings),
        report,
        {name: fitted_map.map for name, fitted_map in fitted.items() if task.keeps_maps},
        tuple(resampled_pair(pair.index, scores, nulls, measured)),
    )


def rows_of_null(
    evaluate: MapEvaluator, sample: Sample, settings: CompareSettings, machine: Machine
) -> tuple[Sample | None, int]:
    """Return the rows that are shuffled, in memory, and how often; None where they are not."""
    n_rows = null_rows(sample.dims, sample.n_rows, machine)
    cost = shuffle_cost(n_rows, sample.dims, len(evaluate.names), len(sample.split.judged))
    n_shuffles = shuffles_wanted(cost, settings)
    if n_shuffles == 0:
        return None, 0
    machine.on_stage("null", 0, 1)
    # of ICA the best starts
    ica = {part: (a[:1], b[:1]) for part, (a, b) in sample.ica.items()}
    chosen = sample.choose_groups(n_rows, settings.seed)
    return replace(sample, ica=ica).loaded(chosen), n_shuffles


def has_rotations(evaluate: MapEvaluator, pair: Pair, diameter: float) -> bool:
    """Tell whether the held-out efficiency can be tested: the two ICAs share no rows."""
    parts = pair.split.judged
    is_efficiency = set(EFFICIENCY_MAPS) <= set(evaluate.names) and diameter > 0
    return bool(parts) and is_efficiency and all(pair.has_halves(part) for part in parts)


def first_scale(scores: MapScores) -> Scale:
    """Return the denominators in the space of the target."""
    scales = scores.scales
    return next(scales[name] for name in scales if not KIND_OF[name].in_components)


def _width(moments: PairMoments) -> float:
    """Return how much wider the source is than the target, by their rms radii; 1 of a point."""
    source, target = np.trace(moments.sxx), np.trace(moments.syy)
    return float(np.sqrt(source / target)) if source > 0 and target > 0 else 1.0


def _in_order(
    measured: Sequence[Measured],
    source: EmbeddingSource,
    target: EmbeddingSource,
    settings: CompareSettings,
) -> tuple[MeasureRecord, ...]:
    """Return the records of measures by split, in the order in which they were asked for."""
    records = [
        record for kind in measured for record in measure_records(kind, source, target, settings)
    ]
    place = {name: number for number, name in enumerate(settings.measures)}
    records.sort(key=lambda record: (record.split != "in-sample", place[record.measure]))
    return tuple(records)


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


def _ica_warnings(scores: MapScores) -> list[str]:
    if scores.ica is None:
        return []
    return [warning for side in scores.ica for warning in side.fit.warnings]
