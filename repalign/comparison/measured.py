"""All measures of one pair: on which rows, with which nulls and intervals."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import isqrt
from typing import Any

import numpy as np

from repalign.aliases import Rows
from repalign.comparison.draws import (
    FEWEST_ROWS,
    bundle_moments,
    halves_of_measures,
    shuffle_plans,
    shuffles_wanted,
    with_nulls,
)
from repalign.comparison.scores import Scores, score_measures
from repalign.comparison.settings import CompareSettings
from repalign.comparison.views import MAX_NULL_ROWS
from repalign.core.measures import Measure, Reads, measures_called
from repalign.core.moments import PairMoments, pair_moments
from repalign.core.neighbours import RANKED_BYTES
from repalign.core.resampling.evaluate import MeasureEvaluator
from repalign.core.resampling.groups import Bundles
from repalign.core.resampling.nulls import permutation_null
from repalign.core.resampling.sample import Sample
from repalign.core.rows import SubsetRows
from repalign.engine.machine import Machine
from repalign.exceptions import InputError
from repalign.printable import byte_size

# Rows of a null: each shuffle of distances costs the square of their number.
NULL_ROWS: dict[Reads, int] = {
    "moments": MAX_NULL_ROWS,
    "rows": 5000,
    "distances": 1000,
    "distance ranks": 1000,
}
# Copies of the rows of measures: as they are read, centred, of a part of the split, of its others.
MEASURE_COPIES = 5
# Values without a group: at least and at most so many, as a budget of multiplications allows.
LEFT_OUT = (20, 50)
LEFT_OUT_BUDGET = 5e10


def measure_pair(
    sample: Sample,
    settings: CompareSettings,
    machine: Machine,
    bundles: Bundles | None,
    moments: Sequence[PairMoments],
    *,
    name: str,
    map: Callable[..., list[Any]],
) -> tuple[list[Scores], list[str]]:
    """Return the measures of a pair, those that read the same together, and notes of them.

    Args:
        sample: The rows.
        settings: Conventions.
        machine: Memory and progress.
        bundles: Those whose half-samples give intervals; None for no intervals.
        moments: Of the bundles; none where the memory does not hold them.
        name: Of the content of the sample.
        map: Runs tasks of shuffles.
    """
    scores, notes = list[Scores](), list[str]()
    kinds: dict[tuple[Reads, bool], tuple[Measure, ...]] = {}
    for measure in measures_called(settings.measures):
        key = measure.reads, measure.fits  # something to the pairing, or nothing
        kinds[key] = (*kinds.get(key, ()), measure)
    for measures in kinds.values():
        machine.on_stage("measures", 0, 1)
        reads = measures[0].reads
        evaluate = MeasureEvaluator(measures, settings.seed, machine.memory_bytes)
        rows, some_bundles, note = choose_rows(sample, measures, settings, machine, bundles)
        n_left_out = wanted_left_out(rows, reads) if settings.n_halves != 0 else 0
        of_kind = score_measures(evaluate, rows, n_left_out)
        if some_bundles is not None:
            is_all = rows.n_rows == sample.n_rows
            of_bundles = moments if is_all else bundle_moments(rows, some_bundles, machine)
            values = of_kind[0].values
            halves = halves_of_measures(evaluate, rows, some_bundles, of_bundles, values)
            of_kind[0] = replace(of_kind[0], halves=halves)
        notes += [*note, *_undefined(measures, of_kind)]
        n_shuffles = n_shuffles_of(evaluate, rows, settings)
        if n_shuffles:
            some = rows.loaded(rows.choose_groups(n_null_rows(evaluate, rows), settings.seed))
            plans, no_plans = shuffle_plans(some, settings)
            drawn = {
                kind: permutation_null(
                    evaluate,
                    some,
                    plan,
                    n_shuffles=n_shuffles,
                    seed=settings.seed,
                    name=f"{name} {reads}",
                    map=map,
                )
                for kind, plan in plans.items()
            }
            of_kind, refusals = with_nulls(of_kind, drawn)
            notes += [*refusals, *no_plans]
        scores += of_kind
    return scores, notes


def choose_rows(
    sample: Sample,
    measures: Sequence[Measure],
    settings: CompareSettings,
    machine: Machine,
    bundles: Bundles | None,
) -> tuple[Sample, Bundles | None, list[str]]:
    """Return the rows on which measures of one kind are computed, with a note if not all.

    The split is that of the pair for measures that fit something; others have none.
    """
    reads, n = measures[0].reads, sample.n_rows
    if not measures[0].fits:
        sample = sample.unsplit()
    room = rows_that_fit(reads, sum(sample.dims), machine)
    n_rows = n if reads == "moments" else min(n, settings.measure_rows or n)
    n_rows = min(n_rows, room)
    if n_rows >= n:
        return replace(sample, known={}), bundles, []
    rows = sample.choose_groups(n_rows, settings.seed)
    sides: tuple[Rows, Rows] = SubsetRows(sample.source, rows), SubsetRows(sample.target, rows)
    split = sample.split.rows(rows)
    moments = pair_moments(*sides, part_of_row=split.part_of_row, n_parts=split.n_parts)
    is_asked = settings.measure_rows and n_rows == settings.measure_rows
    why = "as asked for" if is_asked else "as many as the memory cap holds"
    names = ", ".join(measure.name for measure in measures)
    note = f"{names}: on {rows.size} of {n} rows, groups drawn at random, {why}"
    if bundles is not None:
        bundles = replace(bundles, split=bundles.split.rows(rows))
    return sample.subset(rows, moments, {}), bundles, [note]


def rows_that_fit(reads: Reads, width: int, machine: Machine) -> int:
    """Return how many rows these measures may hold.

    Raises:
        InputError: The memory cap holds too few to say anything.
    """
    if reads == "moments":
        return np.iinfo(np.int64).max
    room = machine.memory_bytes // (8 * MEASURE_COPIES * width)
    if reads == "distance ranks":
        room = min(room, isqrt(2 * machine.memory_bytes // RANKED_BYTES))
    if room < FEWEST_ROWS:
        raise InputError(
            f"memory: {byte_size(machine.memory_bytes)} allowed, which hold {room} rows of "
            f"{width} columns for measures that read {reads}, {FEWEST_ROWS} needed; allow "
            "more (--memory), or leave these measures out"
        )
    return room


def wanted_left_out(sample: Sample, reads: Reads) -> int:
    """Return how many groups, or bundles of them, are left out for a held-out interval."""
    dim, cost = max(sample.dims), 30.0 * max(sample.dims) ** 3
    if reads == "distance ranks":
        cost += 400.0 * sample.n_rows**2
    elif reads == "rows":
        cost += 500.0 * sample.n_rows * dim
    return int(np.clip(LEFT_OUT_BUDGET / cost, *LEFT_OUT))


def n_null_rows(evaluate: MeasureEvaluator, sample: Sample) -> int:
    """Return how many rows the null of measures may hold."""
    room = evaluate.memory_bytes // (8 * MEASURE_COPIES * sum(sample.dims))
    return min(sample.n_rows, NULL_ROWS[evaluate.reads], max(room, FEWEST_ROWS))


def n_shuffles_of(evaluate: MeasureEvaluator, sample: Sample, settings: CompareSettings) -> int:
    """Return how many shuffles of measures are wanted."""
    p, q = sample.dims
    n_rows, n_parts = n_null_rows(evaluate, sample), len(sample.split.judged)
    cost = 2.0 * n_rows * p * q + 30.0 * max(p, q) ** 3 * (1 + n_parts)
    if evaluate.reads in ("distances", "distance ranks"):
        cost += 100.0 * n_rows**2
    return shuffles_wanted(cost, settings)


def _undefined(measures: Sequence[Measure], scores: Sequence[Scores]) -> Iterator[str]:
    """Say which measures these rows are too few for."""
    for of_split in scores:
        for measure, value in zip(measures, of_split.values, strict=True):
            if not np.isfinite(value):
                yield (
                    f"{of_split.split} {measure.name}: not defined on {of_split.n_rows} rows; "
                    "judge more rows, or ask for fewer neighbours"
                )
