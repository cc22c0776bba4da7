"""Extraction on Ray: shards as tasks, which load a model once a process and go on with it.

Stores are what a single process writes: shards are committed by rename, whoever makes them.
"""

import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from repalign.engine.engine import Call, Outcome, to_error
from repalign.engine.machine import Machine
from repalign.engine.ray import RayEngine
from repalign.exceptions import InputError, RepalignError
from repalign.extraction.portion import Made, Portion, ShardPlan
from repalign.extraction.settings import (
    ExtractProgress,
    ExtractResult,
    ExtractSettings,
    Speed,
)

OnExtract = Callable[[ExtractProgress], None]


@dataclass
class Extraction:
    """How far the extraction of one store is."""

    settings: ExtractSettings
    plan: ShardPlan | None = None
    made: Made = field(default_factory=Made)
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
    extractions = [
        Extraction(replace(settings, workers=settings.workers or engine.n_threads))
        for settings in wanted
    ]
    by_process: dict[str, Made] = {}
    started = time.perf_counter()
    with engine:
        for extraction, outcome in _run(engine, plan_shards, [(e, ()) for e in extractions]):
            extraction.plan = _value(extraction, outcome)
        # sorted by model, so that a process loads few
        shards = [
            (extraction, (number,))
            for extraction in extractions
            if extraction.plan is not None
            for number in extraction.plan.missing
        ]
        for extraction, outcome in _run(engine, make_shard, shards):
            name, made = _value(extraction, outcome) or ("", Made())
            extraction.made += made
            by_process[name] = by_process.get(name, Made()) + made
            if name and on_progress is not None:
                on_progress(_progress(extractions, by_process, time.perf_counter() - started))
        whole = [
            (extraction, (extraction.made,))
            for extraction in extractions
            if extraction.plan is not None and extraction.failure is None
        ]
        for extraction, outcome in _run(engine, finish_store, whole):
            extraction.result = _value(extraction, outcome)
    return [extraction.failure or extraction.result for extraction in extractions]  # type: ignore[misc]


def plan_shards(machine: Machine, item: tuple[ExtractSettings]) -> ShardPlan:
    """Return what there is to do of an extraction."""
    return _portion(item[0]).plan()


def make_shard(machine: Machine, item: tuple[ExtractSettings, int]) -> tuple[str, Made]:
    """Make a shard; return the process that did, and what came of it."""
    settings, number = item
    return f"{socket.gethostname()}/{os.getpid()}", _portion(settings).make(number)


def finish_store(machine: Machine, item: tuple[ExtractSettings, Made]) -> ExtractResult:
    """Complete a store, all shards of which are there."""
    settings, made = item
    return _portion(settings).finish(made)


def _portion(settings: ExtractSettings) -> Portion:
    """Return the model and the store of an extraction, loaded once in a process."""
    if settings not in _LOADED:
        for portion in _LOADED.values():
            portion.close()
        _LOADED.clear()  # before the next model takes memory
        _LOADED[settings] = Portion(settings)
    return _LOADED[settings]


_LOADED: dict[ExtractSettings, Portion] = {}


def _run(
    engine: RayEngine, function: Any, items: Sequence[tuple[Extraction, tuple[Any, ...]]]
) -> Iterator[tuple[Extraction, Outcome]]:
    """Yield the outcomes of a function of settings and arguments, as they complete."""
    calls = [
        Call(function, ((extraction.settings, *arguments),)) for extraction, arguments in items
    ]
    for number, outcome in engine.completed(calls, Machine(), stop=False):
        yield items[number][0], outcome


def _value(extraction: Extraction, outcome: Outcome) -> Any:
    """Return the result of a call; of failures the first of an extraction is kept."""
    if outcome.failure is not None and extraction.failure is None:
        extraction.failure = to_error(outcome.failure)
    return outcome.result


def _progress(
    extractions: Sequence[Extraction], by_process: Mapping[str, Made], seconds: float
) -> ExtractProgress:
    """Return how far all processes are."""
    plans = [(e, e.plan) for e in extractions if e.plan is not None]
    sizes = [sum(plan.sizes[number] for number in plan.missing) for _, plan in plans]
    total = sum((e.made for e in extractions), Made())
    unit = plans[0][1].unit
    speeds = {name: Speed(made.n_units, unit, made.seconds) for name, made in by_process.items()}
    n_whole = sum(e.made.samples == size for (e, _), size in zip(plans, sizes, strict=True))
    return ExtractProgress(
        samples_done=total.samples,
        samples_total=sum(sizes),
        rows=total.rows,
        speed=Speed(total.n_units, unit, seconds),
        workers=tuple(sorted(speeds.items())),
        stores=(n_whole, len(extractions)),
    )
