"""The null of every error of one pair: what the same fits give on shuffled pairs."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np

from repalign.aliases import IntArray
from repalign.core.inference.arrangements import (
    FEWEST_ARRANGEMENTS,
    ShufflePlan,
    plan_shuffles,
)
from repalign.core.inference.kept_rows import CHEAP, MAX_JUDGED, JudgeOrder, KeptRows
from repalign.core.inference.kinds import PAIR_SHUFFLES
from repalign.core.inference.nulls import NullErrors, shuffled_null
from repalign.core.inference.splits import Split, sample_groups
from repalign.exceptions import InputError
from repalign.printable import byte_size
from repalign.workflows.compare.judge import PairFitter
from repalign.workflows.compare.settings import CompareSettings
from repalign.workflows.compare.views import MAX_NULL_ROWS, NULL_COPIES
from repalign.workflows.machine import Machine
from repalign.workflows.study.resampled import input_places

FEWEST_ROWS = 50
# Multiplications that the nulls of one pair may take unless a number of draws is asked for:
# some seconds on two cores.
NULL_BUDGET = 1.5e11
FEWEST_SHUFFLES, MOST_SHUFFLES = 9, 99


@dataclass(frozen=True, eq=False)
class PairNulls:
    """Nulls of one pair.

    Attributes:
        names: Names of the maps, or measures, in their order.
        by_kind: By name in ``NULLS``, then by split, what its shuffles give, where asked for.
        notes: What could not be tested, and why.
    """

    names: tuple[str, ...]
    by_kind: dict[str, dict[str, NullErrors]]
    notes: tuple[str, ...]

    def of(self, kind: str, split: str) -> NullErrors | None:
        """Return one null, or None where it was not drawn."""
        return self.by_kind.get(kind, {}).get(split)


@dataclass(frozen=True, eq=False)
class ShuffledRows:
    """What the rows that take part are: their groups and split, and whether groups are in order."""

    groups: IntArray
    split: Split
    is_ordered: bool
    seed: int


def _whole_groups(rows: ShuffledRows) -> ShufflePlan:
    return plan_shuffles(rows.groups, rows.split, is_ordered=rows.is_ordered, seed=rows.seed)


def _inside_groups(rows: ShuffledRows) -> ShufflePlan | str:
    """Plan shuffles of the rows of every group, or say why they mean nothing."""
    if np.unique(rows.groups).size == rows.groups.size:
        return "no p-value beyond the groups: every row is a group of its own"
    if rows.is_ordered:
        return (
            "no p-value beyond the groups: rows of one sample stand in an order (tokens), and "
            "shuffling them would not leave it as it was"
        )
    plan = plan_shuffles(rows.groups, rows.split, beyond_groups=True)
    if not plan.within.is_sufficient:
        return (
            f"no p-value beyond the groups: rows can change places inside them in "
            f"{plan.within.count} ways in all, and a p-value needs {FEWEST_ARRANGEMENTS}"
        )
    return plan


Draw = Callable[[ShufflePlan], tuple[NullErrors, NullErrors | None]]
PLANS: dict[str, Callable[[ShuffledRows], ShufflePlan | str]] = {
    "shuffled pairing": _whole_groups,
    "beyond groups": _inside_groups,
}
"""Name of a null of pairs → what may change places, or why nothing may."""


def check_complete(plans: Iterable[str]) -> None:
    """Check that every shuffle of pairs in ``NULLS`` has a plan, and every plan a null.

    Raises:
        ImportError: One of the two lists lacks a name.
    """
    odd = sorted(set(plans) ^ {kind.name for kind in PAIR_SHUFFLES})
    if odd:
        raise ImportError(f"{', '.join(odd)}: in one of NULLS and PLANS only; a null needs both")


check_complete(PLANS)


def shuffle_pair(fitter: PairFitter) -> PairNulls | None:
    """Return the shuffled-pairing nulls, or None where none are wanted."""
    settings, aligned, total = fitter.settings, fitter.pair.aligned, fitter.pair.total
    dims = (total.source_dim, total.target_dim)
    n_rows = rows_in_memory(dims, aligned.n_rows, fitter.machine)
    cost = shuffle_cost(n_rows, dims, len(fitter.names), len(fitter.split.judged))
    n_shuffles = shuffles_wanted(cost, settings)
    if n_shuffles == 0:
        return None
    fitter.machine.on_stage("null", 0, 1)
    groups, is_ordered, seed = aligned.groups, aligned.is_ordered, settings.seed
    whole = fitter.split
    chosen = sample_groups(groups, whole.part_of_row, n_rows, is_ordered=is_ordered, seed=seed)
    rows = fitter.pair.source.take(chosen), fitter.pair.target.take(chosen)
    places, _ = input_places(aligned.index)

    def judging(kept: KeptRows) -> JudgeOrder:
        return lambda order: kept.judge(order, fitter.fit_all)

    draw = partial(
        shuffled_null,
        *rows,
        judging=judging,
        n_shuffles=n_shuffles,
        seed=seed,
        identity=places[chosen],
    )
    shuffled = ShuffledRows(groups[chosen], whole.rows(chosen), is_ordered, seed)
    return draw_nulls(fitter.names, shuffled, settings, draw)


def draw_nulls(
    names: tuple[str, ...], rows: ShuffledRows, settings: CompareSettings, draw: Draw
) -> PairNulls:
    """Return every shuffled null that the settings ask for, of whatever ``draw`` judges."""
    by_kind: dict[str, dict[str, NullErrors]] = {}
    notes = []
    for kind in PAIR_SHUFFLES:
        # The first shuffles unless there are none at all; the others are asked for by a truth.
        if getattr(settings, kind.setting) is False:
            continue
        plan = PLANS[kind.name](rows)
        if isinstance(plan, str):
            notes.append(plan)
            continue
        drawn = by_kind[kind.name] = _by_split(draw(plan))
        notes += [f"{name}, {null.refusal}" for name, null in drawn.items() if null.refusal]
    return PairNulls(names, by_kind, tuple(notes))


def _by_split(found: tuple[NullErrors, NullErrors | None]) -> dict[str, NullErrors]:
    in_sample, held_out = found
    named = {"in-sample": in_sample}
    return named if held_out is None else named | {"held-out": held_out}


def rows_in_memory(dims: tuple[int, int], n_rows: int, machine: Machine) -> int:
    """Return how many rows a null may hold: as many as say anything new, within the memory.

    Raises:
        InputError: The cap holds too few to say anything.
    """
    row_bytes = NULL_COPIES * 8 * sum(dims)
    room = machine.memory_bytes // row_bytes
    fewest = min(n_rows, FEWEST_ROWS)
    if room < fewest:
        needed = byte_size(fewest * row_bytes, up=True)
        raise InputError(
            f"memory: {byte_size(machine.memory_bytes)} allowed, {needed} needed for a null on "
            f"{fewest} rows; allow more (--memory), or leave nulls out (--null 0 --gaussian-null 0)"
        )
    return min(n_rows, MAX_NULL_ROWS, room)


def shuffles_wanted(cost: float, settings: CompareSettings) -> int:
    """Return how many shuffles of such a cost: where none are asked for, what is cheap."""
    if settings.n_null is not None:
        return settings.n_null
    return int(np.clip(NULL_BUDGET / cost, FEWEST_SHUFFLES, MOST_SHUFFLES))


def shuffle_cost(n_rows: int, dims: tuple[int, int], n_maps: int, n_judged_parts: int) -> float:
    """Return about how many multiplications a shuffle takes."""
    p, q = dims
    solving = 30.0 * max(p, q) ** 3 * (1 + n_judged_parts)
    judged = min(n_rows, max(MAX_JUDGED, int(CHEAP / (p * q))))
    judging = 2.0 * judged * p * q * n_maps * (2 if n_judged_parts else 1)
    return 2.0 * n_rows * p * q + solving + judging
