"""All measures of one pair: on which rows, how far they can be trusted, and the records."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import isqrt

import numpy as np

from repalign.aliases import Rows
from repalign.core.inference.nulls import shuffled_null
from repalign.core.inference.splits import Bundles, no_split, sample_groups
from repalign.core.moments import pair_moments
from repalign.core.rows import SubsetRows
from repalign.core.similarity.distances import RANKED_BYTES
from repalign.core.similarity.measures import Measure, Reads, measures_called
from repalign.core.similarity.shuffled import judging
from repalign.exceptions import InputError
from repalign.printable import byte_size
from repalign.workflows.compare.nulls import (
    FEWEST_ROWS,
    PairNulls,
    ShuffledRows,
    draw_nulls,
    shuffles_wanted,
)
from repalign.workflows.compare.pair_data import PairData
from repalign.workflows.compare.settings import CompareSettings
from repalign.workflows.compare.similarity.judge import JudgedRows, MeasureJudge, SplitValues
from repalign.workflows.compare.views import MAX_NULL_ROWS
from repalign.workflows.machine import Machine
from repalign.workflows.study.resampled import input_places

# Copies of the rows in memory: as they are read, centred, of a part of the split, of its rest.
COPIES = 5
# Rows of a null: each shuffle of distances costs the square of their number.
NULL_ROWS: dict[Reads, int] = {
    "moments": MAX_NULL_ROWS,
    "rows": 5000,
    "distances": 1000,
    "distance ranks": 1000,
}
# Values without a group: at least and at most so many, as a budget of multiplications allows.
LEFT_OUT = (20, 50)
LEFT_OUT_BUDGET = 5e10


@dataclass(frozen=True, eq=False)
class MeasureResult:
    """Measures that read the same of one pair.

    Attributes:
        measures: In the order asked for.
        values: In-sample and, where rows are judged, held-out.
        nulls: As errors: of a measure that grows with similarity its negative. None where none
            are wanted.
        notes: What a reader must know.
    """

    measures: tuple[Measure, ...]
    values: tuple[SplitValues, ...]
    nulls: PairNulls | None
    notes: tuple[str, ...]


def measure_pair(
    pair: PairData,
    settings: CompareSettings,
    machine: Machine,
    bundles: Bundles | None,
) -> Iterator[MeasureResult]:
    """Yield the measures of a pair, those that read the same together.

    ``bundles`` are those whose half-samples give intervals.
    """
    for judge, notes in _judges(pair, settings, machine, bundles):
        chosen, reads, rows = judge.measures, judge.reads, judge.rows
        values = [judge.in_sample()]
        if rows.split.judged:
            n_left_out = wanted_left_out(rows, reads) if settings.n_halves != 0 else 0
            values.append(judge.held_out(n_left_out))
        nulls = _nulls(judge, settings)
        notes += _undefined(chosen, values)
        notes += () if nulls is None else nulls.notes
        yield MeasureResult(chosen, tuple(values), nulls, tuple(notes))


def _kinds(measures: Sequence[Measure]) -> dict[tuple[Reads, bool], tuple[Measure, ...]]:
    """Return measures by what they read and whether they fit something to the pairing."""
    keys = dict.fromkeys((measure.reads, measure.fits) for measure in measures)
    return {
        key: tuple(measure for measure in measures if (measure.reads, measure.fits) == key)
        for key in keys
    }


def _judges(
    pair: PairData, settings: CompareSettings, machine: Machine, bundles: Bundles | None = None
) -> Iterator[tuple[MeasureJudge, list[str]]]:
    """Yield who judges the measures of one kind, with notes on their rows."""
    for measures in _kinds(measures_called(settings.measures)).values():
        machine.on_stage("measures", 0, 1)
        rows, notes = judged_rows(pair, measures, settings, machine, bundles)
        seed, memory_bytes = settings.seed, machine.memory_bytes
        reads = measures[0].reads
        yield MeasureJudge(measures, reads, rows, seed=seed, memory_bytes=memory_bytes), notes


def judged_rows(
    pair: PairData,
    measures: Sequence[Measure],
    settings: CompareSettings,
    machine: Machine,
    bundles: Bundles | None = None,
) -> tuple[JudgedRows, list[str]]:
    """Return the rows on which measures of one kind are computed, with a note if not all.

    The split is that of the pair for measures that fit something; others have none.
    """
    aligned, reads = pair.aligned, measures[0].reads
    groups, n = aligned.groups, aligned.n_rows
    split, parts = aligned.split, pair.parts
    if not measures[0].fits:
        split, parts = no_split(n), (pair.total,)
    room = rows_that_fit(reads, pair.total.source_dim + pair.total.target_dim, machine)
    wanted = n if reads == "moments" else min(n, settings.measure_rows or n)
    if wanted > room:
        wanted = room
    places, _ = input_places(aligned.index)
    if wanted >= n:
        rows = JudgedRows(
            pair.source, pair.target, parts, split, groups, places, aligned.is_ordered, bundles
        )
        return rows, []
    chosen = sample_groups(
        groups, split.part_of_row, wanted, is_ordered=aligned.is_ordered, seed=settings.seed
    )
    sides: tuple[Rows, Rows] = SubsetRows(pair.source, chosen), SubsetRows(pair.target, chosen)
    part_of_row = split.part_of_row[chosen]
    parts = pair_moments(*sides, part_of_row=part_of_row, n_parts=split.n_parts)
    why = (
        "as asked for"
        if settings.measure_rows and wanted == settings.measure_rows
        else ("as many as the memory cap holds")
    )
    names = ", ".join(measure.name for measure in measures)
    note = f"{names}: on {chosen.size} of {n} rows, groups drawn at random, {why}"
    if bundles is not None:
        bundles = replace(bundles, split=bundles.split.rows(chosen))
    found = JudgedRows(
        *sides,
        parts,
        split.rows(chosen),
        groups[chosen],
        places[chosen],
        aligned.is_ordered,
        bundles,
    )
    return found, [note]


def rows_that_fit(reads: Reads, width: int, machine: Machine) -> int:
    """Return how many rows these measures may hold.

    Raises:
        InputError: The memory cap holds too few to say anything.
    """
    if reads == "moments":
        return np.iinfo(np.int64).max
    room = machine.memory_bytes // (8 * COPIES * width)
    if reads == "distance ranks":
        room = min(room, isqrt(2 * machine.memory_bytes // RANKED_BYTES))
    if room < FEWEST_ROWS:
        raise InputError(
            f"memory: {byte_size(machine.memory_bytes)} allowed, which hold {room} rows of "
            f"{width} columns for measures that read {reads}, {FEWEST_ROWS} needed; allow "
            "more (--memory), or leave these measures out"
        )
    return room


def wanted_left_out(rows: JudgedRows, reads: Reads) -> int:
    """Return how many groups, or bundles of them, are left out for a held-out interval."""
    dim = max(rows.total.source_dim, rows.total.target_dim)
    cost = 30.0 * dim**3
    if reads == "distance ranks":
        cost += 400.0 * rows.n**2
    elif reads == "rows":
        cost += 500.0 * rows.n * dim
    return int(np.clip(LEFT_OUT_BUDGET / cost, *LEFT_OUT))


def _shuffle_cost(n_rows: int, dims: tuple[int, int], n_judged_parts: int, reads: Reads) -> float:
    """Return about how many multiplications a shuffle of measures that read this takes."""
    p, q = dims
    cost = 2.0 * n_rows * p * q + 30.0 * max(p, q) ** 3 * (1 + n_judged_parts)
    return cost + 100.0 * n_rows**2 if reads in ("distances", "distance ranks") else cost


def _nulls(judge: MeasureJudge, settings: CompareSettings) -> PairNulls | None:
    """Return the shuffled nulls as errors, or None where none are wanted."""
    rows, seed = judge.rows, settings.seed
    dims = rows.total.source_dim, rows.total.target_dim
    n_rows = min(rows.n, NULL_ROWS[judge.reads])
    room = judge.memory_bytes // (8 * COPIES * sum(dims))
    n_rows = min(n_rows, max(room, FEWEST_ROWS))
    cost = _shuffle_cost(n_rows, dims, len(rows.split.judged), judge.reads)
    n_shuffles = shuffles_wanted(cost, settings)
    if n_shuffles == 0:
        return None
    chosen = sample_groups(
        rows.groups, rows.split.part_of_row, n_rows, is_ordered=rows.is_ordered, seed=seed
    )
    held = judge.held if chosen.size == rows.n else None
    draw = partial(
        shuffled_null,
        rows.source.take(chosen),
        rows.target.take(chosen),
        judging=judging(judge.measures, judge.memory_bytes, held, seed=seed),
        n_shuffles=n_shuffles,
        seed=seed,
        identity=rows.places[chosen],
    )
    names = tuple(measure.name for measure in judge.measures)
    taking_part = ShuffledRows(rows.groups[chosen], rows.split.rows(chosen), rows.is_ordered, seed)
    return draw_nulls(names, taking_part, settings, draw)


def _undefined(measures: Sequence[Measure], values: Sequence[SplitValues]) -> Iterator[str]:
    """Say which measures these rows are too few for."""
    for split in values:
        for measure, value in zip(measures, split.values, strict=True):
            if not np.isfinite(value):
                yield (
                    f"{split.split} {measure.name}: not defined on {split.n_rows} rows; judge "
                    "more rows, or ask for fewer neighbours"
                )
