"""Compare one pair of views: scores, nulls and intervals, records, warnings."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from operator import itemgetter
from typing import Any

from repalign.aliases import Rows
from repalign.comparison.draws import (
    HalfSamples,
    bundle_moments,
    halves_of_maps,
    n_rotations,
    null_rows,
    refusal_of_halves,
    shuffle_cost,
    shuffle_plans,
    shuffles_wanted,
    with_nulls,
)
from repalign.comparison.measured import measure_pair
from repalign.comparison.pairs import Pair, input_places
from repalign.comparison.records import make_records, measure_records, report_of
from repalign.comparison.results import ErrorRecord, MeasureRecord, PairReport
from repalign.comparison.scores import (
    IcaByPart,
    MapScores,
    scale_of_target,
    score_maps,
)
from repalign.comparison.search import Resampled, resampled_pair
from repalign.comparison.settings import CompareSettings, without_ica
from repalign.comparison.space import Scale, Space, ica_rows, leading_components, map_source
from repalign.comparison.warnings import warn_of_pair
from repalign.core.affine import AffineMap, MappedRows
from repalign.core.device import is_small, one_thread_if
from repalign.core.maps import KIND_OF
from repalign.core.moments import PairMoments, cross_moments
from repalign.core.resampling.evaluate import MapEvaluator
from repalign.core.resampling.nulls import permutation_null
from repalign.core.resampling.rotations import rotation_null
from repalign.core.resampling.sample import Sample
from repalign.engine.cache import cache_key, digest
from repalign.engine.engine import Engine
from repalign.engine.machine import Machine

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
    machine: Machine, task: PairTask, source: Space, target: Space, engine: Engine | None = None
) -> tuple[PairResult, ...]:
    """Return all that is computed of two views together: one result for each direction.

    ``engine`` runs the shuffles.
    """
    pair, settings = task.pair, task.settings
    shuffles = partial(
        (engine or Engine()).map,
        "shuffles",
        machine=machine,
        key=itemgetter(0),
        only_slow=True,  # short ones are not kept
    )
    if settings.has_ica and not (source.ica and target.ica):  # a side does not vary
        task = replace(task, settings=without_ica(settings))
    with one_thread_if(is_small(pair.n_rows, *pair.dims)):
        sample, bundles = read_pair(machine, task, (source, target))
        results = [compare_direction(machine, task, sample, bundles, (source, target), shuffles)]
        if settings.both_directions:
            back = replace(task, pair=pair.reversed())
            bundles = tuple(moments.swapped() for moments in bundles)
            sides = target, source
            results.append(
                compare_direction(machine, back, sample.reversed(), bundles, sides, shuffles)
            )
    return tuple(results)


def read_pair(
    machine: Machine, task: PairTask, spaces: tuple[Space, Space]
) -> tuple[Sample, tuple[PairMoments, ...]]:
    """Read what two views need together: one pass for cross products, one more for bundles.

    Bundles are those of which half-samples are made; none where there are none, or the memory
    does not hold their moments.
    """
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
    return sample, bundles


def _moments(
    rows: tuple[Rows, Rows],
    pair: Pair,
    known: tuple[tuple[PairMoments, ...], tuple[PairMoments, ...]],
    machine: Machine,
) -> tuple[PairMoments, ...]:
    return cross_moments(
        *rows,
        known,
        part_of_row=pair.split.part_of_row,
        n_parts=pair.split.n_parts,
        **machine.limits("moments"),
    )


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


def compare_direction(
    machine: Machine,
    task: PairTask,
    sample: Sample,
    bundles: tuple[PairMoments, ...],
    spaces: tuple[Space, Space],
    shuffles: Callable[..., list[Any]],
) -> PairResult:
    """Return what is computed of one direction of a pair.

    Args:
        machine: Device, memory and progress.
        task: The pair in this direction.
        sample: Its rows and moments.
        bundles: Moments of the bundles that half-samples are made of, if they are held.
        spaces: What was computed of source and target alone.
        shuffles: Runs tasks of shuffles.
    """
    pair, settings, halves = task.pair, task.settings, task.halves
    ica: IcaByPart = {}  # by the part that is left out
    if spaces[0].ica and spaces[1].ica:
        for part in (None, *pair.split.judged):
            source, target = (ica_rows(pair, side, part) for side in (0, 1))
            ica[part] = spaces[0].ica[source], spaces[1].ica[target]
    sample = replace(sample, ica={part: (a.fits, b.fits) for part, (a, b) in ica.items()})
    in_space = partial(scale_of_target, sample, spaces[1].scale, machine, settings.seed)
    names, notes = usable_maps(pair, settings)
    scores, of_nulls = list[MapScores](), list[str]()
    if names:
        evaluate = MapEvaluator(tuple(names), settings.permutation_cost, machine.limits("errors"))
        scores = score_maps(evaluate, sample, pair, ica, in_space, settings)
        # Without progress: draws are many, short, and sent to other processes.
        quiet = replace(
            evaluate, limits={"memory_bytes": machine.memory_bytes, "device": machine.device}
        )
        if halves is not None:
            scores = halves_of_maps(quiet, sample, scores, halves, bundles, spaces)
        rows, n_shuffles = rows_of_null(quiet, sample, settings, machine)
        if rows is not None:
            plans, no_plans = shuffle_plans(rows, settings)
            drawn = {
                kind: permutation_null(
                    quiet,
                    rows,
                    plan,
                    n_shuffles=n_shuffles,
                    seed=settings.seed,
                    name=task.key,
                    map=shuffles,
                )
                for kind, plan in plans.items()
            }
            scores, refusals = with_nulls(scores, drawn)
            of_nulls = [*refusals, *no_plans]
        diameter = first_scale(scores[0]).diameter.value
        n_draws = n_rotations(names, pair, sample, settings)
        if n_draws and diameter > 0:
            rotations = rotation_null(quiet, sample, n_draws, diameter, settings.seed)
            scores[-1] = replace(scores[-1], rotations=rotations)
    measured, of_measures = measure_pair(
        sample,
        settings,
        machine,
        None if halves is None else halves.bundles,
        bundles,
        name=task.key,
        map=shuffles,
    )
    records = tuple(
        record for of_split in scores for record in make_records(of_split, pair, settings)
    )
    warnings = [
        *(notes if settings.maps else ()),
        *(refusal_of_halves(pair, settings) if halves is None else ()),
        *pair.report.warnings,
        *warn_of_pair(
            pair,
            sample,
            scores,
            measured,
            records,
            settings,
            of_nulls=of_nulls,
            of_measures=of_measures,
        ),
    ]
    scale = first_scale(scores[0]) if scores else in_space(None)
    report = report_of(pair, sample.total, scores, scale)
    fitted = scores[-1 if settings.map_rows == "training" else 0].maps.by_name if scores else {}
    return PairResult(
        records,
        tuple(measure_records(measured, pair, settings)),
        replace(report, warnings=tuple(dict.fromkeys(warnings))),
        {name: fitted_map.map for name, fitted_map in fitted.items() if task.keeps_maps},
        tuple(resampled_pair(pair.index, [*scores, *measured])),
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
    rows = sample.choose_groups(n_rows, settings.seed)
    return replace(sample, ica=ica).loaded(rows), n_shuffles


def first_scale(scores: MapScores) -> Scale:
    """Return the denominators in the space of the target."""
    scales = scores.scales
    return next(scales[name] for name in scales if not KIND_OF[name].in_components)


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
