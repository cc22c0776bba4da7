"""The spaces of all pairs: each moment, scale and ICA is computed once, whatever it is used for."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

from repalign.comparison.draws import HalfSamples
from repalign.comparison.pairs import Pair
from repalign.comparison.scores import ica_rows
from repalign.comparison.settings import CompareSettings
from repalign.comparison.space import (
    IcaRows,
    IcaTask,
    Partition,
    Scale,
    Space,
    SpaceIca,
    compute_moments,
    compute_scale,
    fit_ica,
    ica_lanes,
    scale_key,
)
from repalign.core.moments import PairMoments
from repalign.engine.engine import Engine
from repalign.engine.machine import Machine

if TYPE_CHECKING:
    from repalign.comparison.pair import PairTask

SIDES = ("source", "target")
Moments = dict[str, tuple[PairMoments, ...]]


def compute_spaces(
    pair_tasks: "Sequence[PairTask]",
    settings: CompareSettings,
    engine: Engine,
    machine: Machine,
) -> dict[str, tuple[Space, Space]]:
    """Return what every pair takes from its two views, by the key of the pair."""
    pairs, halves = [task.pair for task in pair_tasks], [task.halves for task in pair_tasks]
    bundled = [None if half is None or not half.has_ica else half for half in halves]
    partitions = [_partitions(pair) for pair in pairs]
    bundles = [() if half is None else _partitions(half.pair) for half in bundled]
    every = [partition for both in (*partitions, *bundles) for partition in both]
    keeps_rows = not settings.has_ica  # which comes next and needs the memory
    results = engine.map(
        "moments",
        compute_moments,
        every,
        machine,
        key=attrgetter("key"),
        shared=lambda partition: (keeps_rows,),
    )
    moments: Moments = {part.key: result for part, result in zip(every, results, strict=True)}
    tasks: list[tuple[list[IcaTask], list[IcaTask]]] = [([], []) for _ in pairs]
    for number, (pair, half) in enumerate(zip(pairs, bundled, strict=True)):
        if settings.has_ica and can_be_unmixed(moments[part.key] for part in partitions[number]):
            for side, task in _ica_tasks(pair, half, partitions[number], bundles[number], settings):
                tasks[number][side].append(task)
    fits = _fit_all(tasks, moments, engine, machine)
    scales = _scales(pairs, settings, engine, machine)
    known: dict[tuple[str, ...], Space] = {}

    def space(number: int, side: int) -> Space:
        partition, ica = partitions[number][side], tasks[number][side]
        bundle_key = bundles[number][side].key if bundles[number] else ""
        scale = scales.get((number, side))
        key = (partition.key, bundle_key, str(scale is None), *(task.key for task in ica))
        if key not in known:
            known[key] = Space(
                moments=moments[partition.key],
                bundles=moments[bundle_key] if bundle_key else (),
                scale=scale,
                ica={task.on: fits[task.key] for task in ica},
            )
        return known[key]

    return {task.key: (space(n, 0), space(n, 1)) for n, task in enumerate(pair_tasks)}


def can_be_unmixed(sides: Iterable[Sequence[PairMoments]]) -> bool:
    """Tell whether every part of both sides varies."""
    return all(np.trace(part.sxx) > 0 for parts in sides for part in parts)


def _partitions(pair: Pair) -> tuple[Partition, Partition]:
    first, second = (Partition(view, pair.split, pair.split_key) for view in pair.views)
    return first, second


def _ica_tasks(
    pair: Pair,
    half: HalfSamples | None,
    partitions: tuple[Partition, Partition],
    bundles: tuple[Partition, ...],
    settings: CompareSettings,
) -> Iterator[tuple[int, IcaTask]]:
    """Yield the ICA fits of both sides of a pair, on its rows and on half-samples of them."""
    width, both = pair.common_width(settings), settings.both_directions
    whole = [
        (ica_rows(pair, 0, part), ica_rows(pair, 1, part)) for part in (None, *pair.split.judged)
    ]
    for side in (0, 1):
        for on in _rows_of_side(whole, side, both=both):
            yield side, IcaTask(partitions[side], on, width, settings, SIDES[side])
    if half is not None:
        single = replace(settings, starts=1)
        for side in (0, 1):
            for on in _rows_of_side(half.ica_rows(), side, both=both):
                yield side, IcaTask(bundles[side], on, width, single, SIDES[side])


def _rows_of_side(
    rows: Iterable[tuple[IcaRows, IcaRows]], side: int, *, both: bool
) -> Iterator[IcaRows]:
    """Yield the rows of a side; the way back exchanges those of the two sides."""
    for pair in rows:
        yield pair[side]
        if both and pair[0] != pair[1]:
            yield pair[1 - side]


def _fit_all(
    tasks: Sequence[tuple[list[IcaTask], list[IcaTask]]],
    moments: Moments,
    engine: Engine,
    machine: Machine,
) -> dict[str, SpaceIca]:
    every = [task for sides in tasks for of_side in sides for task in of_side]
    fits = engine.map(
        "ICA",
        fit_ica,
        every,
        machine,
        key=attrgetter("key"),
        shared=lambda task: (moments[task.partition.key],),
        lanes=ica_lanes,
    )
    return {task.key: fit for task, fit in zip(every, fits, strict=True)}


def _scales(
    pairs: Sequence[Pair], settings: CompareSettings, engine: Engine, machine: Machine
) -> dict[tuple[int, int], Scale]:
    """Return the scale of every target, by pair and side.

    A view that is cut to fewer columns has none: which directions stay depends on the pair.
    """
    places = [
        (number, side)
        for number, pair in enumerate(pairs)
        for side in ((1, 0) if settings.both_directions else (1,))
        if pair.dims[side] <= (pair.common_width(settings) or pair.dims[side])
    ]
    scales = engine.map(
        "diameter",
        compute_scale,
        [pairs[number].views[side] for number, side in places],
        machine,
        key=lambda view: scale_key(view, settings.seed),
        shared=lambda view: (settings.seed,),
    )
    return dict(zip(places, scales, strict=True))
