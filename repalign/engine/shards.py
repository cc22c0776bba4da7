"""Extraction on Ray: shards as tasks, which load a model once a process and go on with it.

Stores are what a single process writes: shards are committed by rename, whoever makes them.
"""

import os
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from repalign.engine.engine import Call, Outcome, to_error
from repalign.engine.machine import Machine
from repalign.engine.ray import RayEngine
from repalign.exceptions import InputError, RepalignError
from repalign.extraction.run import Counts, Extraction, OnExtract
from repalign.extraction.settings import (
    ExtractProgress,
    ExtractResult,
    ExtractSettings,
    Speed,
)
from repalign.store.directory import committed_numbers

# The lock of a store with several writers: how many they are does not matter.
SEVERAL = 2


# Samples of the shards that are missing, by number, and what their speed counts.
ShardPlan = tuple[Mapping[int, int], str]


@dataclass
class StoreState:
    """How far the extraction of one store is."""

    settings: ExtractSettings
    plan: ShardPlan | None = None
    counts: Counts = field(default_factory=Counts)
    result: ExtractResult | None = None
    failure: RepalignError | None = None


def extract_on_ray(
    wanted: Sequence[ExtractSettings], engine: RayEngine, on_progress: OnExtract | None = None
) -> list[ExtractResult | RepalignError]:
    """Extract one or many stores; return what came of each, in their order.

    What is committed already is not made again; a checkpoint that cannot be used does not stop
    the others.

    Raises:
        RepalignError: Nothing can be done: no Ray, no cluster, or processes that die again and
            again.
    """
    if any(settings.overwrite for settings in wanted):
        raise InputError("--overwrite with --engine ray: remove the old store first")
    stores = [
        StoreState(replace(settings, workers=settings.workers or engine.n_threads))
        for settings in wanted
    ]
    by_process: dict[str, Counts] = {}
    started = time.perf_counter()
    with engine:
        for store, outcome in _run(engine, plan_shards, [(store, ()) for store in stores]):
            store.plan = _value(store, outcome)
        # sorted by model, so that a process loads few
        shards = [
            (store, (number,))
            for store in stores
            if store.plan is not None
            for number in store.plan[0]
        ]
        for store, outcome in _run(engine, make_shard, shards):
            name, counts = _value(store, outcome) or ("", Counts())
            store.counts += counts
            by_process[name] = by_process.get(name, Counts()) + counts
            if name and on_progress is not None:
                on_progress(_progress(stores, by_process, time.perf_counter() - started))
        whole = [
            (store, (store.counts,))
            for store in stores
            if store.plan is not None and store.failure is None
        ]
        for store, outcome in _run(engine, finish_store, whole):
            store.result = _value(store, outcome)
    return [store.failure or store.result for store in stores]  # type: ignore[misc]


def plan_shards(machine: Machine, item: tuple[ExtractSettings]) -> ShardPlan:
    """Return the shards that are missing."""
    extraction = _extraction(item[0])
    shards = [extraction.shard(number) for number in extraction.missing]
    sizes = {shard.number: shard.stop - shard.start for shard in shards}
    return sizes, extraction.inputs.unit


def make_shard(machine: Machine, item: tuple[ExtractSettings, int]) -> tuple[str, Counts]:
    """Make a shard unless a lost process committed it; return this process and its counts."""
    settings, number = item
    extraction = _extraction(settings)
    is_there = number in committed_numbers(extraction.writer.directory)
    return f"{socket.gethostname()}/{os.getpid()}", extraction.make([] if is_there else [number])


def finish_store(machine: Machine, item: tuple[ExtractSettings, Counts]) -> ExtractResult:
    """Complete a store, all shards of which are there."""
    settings, counts = item
    return _extraction(settings).finish(counts)


def _extraction(settings: ExtractSettings) -> Extraction:
    """Return the model and the store of an extraction, loaded once in a process."""
    if settings not in _LOADED:
        for extraction in _LOADED.values():
            extraction.writer.close()
        _LOADED.clear()  # before the next model takes memory
        _LOADED[settings] = Extraction(settings, SEVERAL)
    return _LOADED[settings]


_LOADED: dict[ExtractSettings, Extraction] = {}


def _run(
    engine: RayEngine, function: Any, items: Sequence[tuple[StoreState, tuple[Any, ...]]]
) -> Iterator[tuple[StoreState, Outcome]]:
    """Yield the outcomes of a function of settings and arguments, as they complete."""
    calls = [Call(function, ((store.settings, *arguments),)) for store, arguments in items]
    for number, outcome in engine.completed(calls, Machine(), stop=False):
        yield items[number][0], outcome


def _value(store: StoreState, outcome: Outcome) -> Any:
    """Return the result of a call; of failures the first of a store is kept."""
    result, failure = outcome
    if failure is not None and store.failure is None:
        store.failure = to_error(failure)
    return result


def _progress(
    stores: Sequence[StoreState], by_process: Mapping[str, Counts], seconds: float
) -> ExtractProgress:
    """Return how far all processes are."""
    plans = [(store, *store.plan) for store in stores if store.plan is not None]
    sizes = [sum(missing.values()) for _, missing, _ in plans]
    total = sum((store.counts for store in stores), Counts())
    unit = plans[0][2]
    speeds = {name: Speed(part.n_units, unit, part.seconds) for name, part in by_process.items()}
    n_whole = sum(s.counts.samples == size for (s, *_), size in zip(plans, sizes, strict=True))
    return ExtractProgress(
        samples_done=total.samples,
        samples_total=sum(sizes),
        rows=total.rows,
        speed=Speed(total.n_units, unit, seconds),
        workers=tuple(sorted(speeds.items())),
        stores=(n_whole, len(stores)),
    )
