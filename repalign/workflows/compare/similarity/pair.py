"""All measures of one pair: on which rows, how far they can be trusted, and the records."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import isqrt

import numpy as np

from repalign.aliases import Rows
from repalign.core.inference.nulls import shuffled_null
from repalign.core.inference.splits import sample_groups
from repalign.core.moments import pair_moments
from repalign.core.rows import SubsetRows
from repalign.core.similarity.distances import RANKED_BYTES
from repalign.core.similarity.measures import Measure, Reads, measures_called
from repalign.core.similarity.shuffled import judging
from repalign.exceptions import InputError
from repalign.workflows.compare.nulls import (
    FEWEST_ROWS,
    FEWEST_SHUFFLES,
    MAX_NULL_ROWS,
    MOST_SHUFFLES,
    NULL_BUDGET,
    PairNulls,
    ShuffledRows,
    draw_nulls,
)
from repalign.workflows.compare.pair_data import PairData
from repalign.workflows.compare.settings import CompareSettings
from repalign.workflows.compare.similarity.judge import JudgedRows, MeasureJudge, SplitValues
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
LEFT_OUT = (10, 50)
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
    pair: PairData, settings: CompareSettings, machine: Machine
) -> Iterator[MeasureResult]:
    """Yield the measures of a pair, those that read the same together."""
    asked = measures_called(settings.measures)
    for reads in dict.fromkeys(measure.reads for measure in asked):
        machine.on_stage("measures", 0, 1)
        chosen = tuple(measure for measure in asked if measure.reads == reads)
        rows, notes = judged_rows(pair, reads, settings, machine)
        judge = MeasureJudge(
            chosen, reads, rows, seed=settings.seed, memory_bytes=machine.memory_bytes
        )
        n_left_out = wanted_left_out(rows, reads, settings)
        values = [judge.in_sample(n_left_out)]
        if rows.split.judged:
            values.append(judge.held_out(n_left_out))
        nulls = _nulls(judge, settings)
        notes += _undefined(chosen, values)
        notes += () if nulls is None else nulls.notes
        yield MeasureResult(chosen, tuple(values), nulls, tuple(notes))


def judged_rows(
    pair: PairData, reads: Reads, settings: CompareSettings, machine: Machine
) -> tuple[JudgedRows, list[str]]:
    """Return the rows that these measures read, and a note where these are not all."""
    aligned = pair.aligned
    split, groups, n = aligned.split, aligned.groups, aligned.n_rows
    room = rows_that_fit(reads, pair.total.source_dim + pair.total.target_dim, machine)
    wanted = n if reads == "moments" else min(n, settings.measure_rows or n)
    if wanted > room:
        wanted = room
    places, _ = input_places(aligned.index)
    if wanted >= n:
        rows = JudgedRows(
            pair.source, pair.target, pair.parts, split, groups, places, aligned.is_ordered
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
    names = ", ".join(m.name for m in measures_called(settings.measures) if m.reads == reads)
    note = f"{names}: on {chosen.size} of {n} rows, groups drawn at random, {why}"
    found = JudgedRows(
        *sides, parts, split.rows(chosen), groups[chosen], places[chosen], aligned.is_ordered
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
            f"the memory cap is {machine.memory_bytes} bytes, which holds {room} rows of "
            f"{width} columns for measures that read {reads}, and {FEWEST_ROWS} are needed; raise "
            "the cap, or leave these measures out"
        )
    return room


def wanted_left_out(rows: JudgedRows, reads: Reads, settings: CompareSettings) -> int:
    """Return how many groups, or bundles of them, are left out for an interval."""
    if settings.n_refits is not None:
        return max(settings.n_refits, 2) if settings.n_refits else 0
    dim = max(rows.total.source_dim, rows.total.target_dim)
    cost = 30.0 * dim**3
    if reads == "distance ranks":
        cost += 400.0 * rows.n**2
    elif reads == "rows":
        cost += 500.0 * rows.n * dim
    return int(np.clip(LEFT_OUT_BUDGET / cost, *LEFT_OUT))


def affordable_shuffles(rows: JudgedRows, reads: Reads, n_rows: int) -> int:
    """Return how many shuffles the budget allows."""
    p, q = rows.total.source_dim, rows.total.target_dim
    cost = 2.0 * n_rows * p * q + 30.0 * max(p, q) ** 3 * (1 + len(rows.split.judged))
    if reads in ("distances", "distance ranks"):
        cost += 100.0 * n_rows**2
    return int(np.clip(NULL_BUDGET / cost, FEWEST_SHUFFLES, MOST_SHUFFLES))


def _nulls(judge: MeasureJudge, settings: CompareSettings) -> PairNulls | None:
    """Return the shuffled nulls as errors, or None where none are wanted."""
    rows, seed = judge.rows, settings.seed
    n_rows = min(rows.n, NULL_ROWS[judge.reads])
    room = judge.memory_bytes // (8 * COPIES * (rows.total.source_dim + rows.total.target_dim))
    n_rows = min(n_rows, max(room, FEWEST_ROWS))
    n_shuffles = settings.n_null
    if n_shuffles is None:
        n_shuffles = affordable_shuffles(rows, judge.reads, n_rows)
    if n_shuffles == 0:
        return None
    chosen = sample_groups(
        rows.groups, rows.split.part_of_row, n_rows, is_ordered=rows.is_ordered, seed=seed
    )
    draw = partial(
        shuffled_null,
        rows.source.take(chosen),
        rows.target.take(chosen),
        judging=judging(
            judge.measures, judge.memory_bytes, judge.held if chosen.size == rows.n else None
        ),
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
