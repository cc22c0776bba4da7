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
from repalign.core.inference.kept_rows import CHEAP, MAX_JUDGED
from repalign.core.inference.kinds import PAIR_SHUFFLES
from repalign.core.inference.nulls import NullErrors, shuffled_pairing_null
from repalign.core.inference.splits import Split, sample_groups
from repalign.exceptions import InputError
from repalign.workflows.compare.judge import PairFitter
from repalign.workflows.compare.settings import CompareSettings
from repalign.workflows.machine import Machine
from repalign.workflows.study.resampled import input_places

# A null on more rows costs more and says the same: far from n ≈ p it no longer depends on n.
MAX_NULL_ROWS = 20_000
FEWEST_ROWS = 50
# Of each row a null holds the value itself, in double precision, and shuffled.
COPIES = 3
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
    n_all = fitter.pair.aligned.n_rows
    total = fitter.pair.total
    n_rows = rows_in_memory((total.source_dim, total.target_dim), n_all, fitter.machine)
    wanted = fitter.settings.n_null
    n_shuffles = affordable_shuffles(fitter, n_rows) if wanted is None else wanted
    if n_shuffles == 0:
        return None
    fitter.machine.on_stage("null", 0, 1)
    groups, is_ordered = fitter.pair.aligned.groups, fitter.pair.aligned.is_ordered
    seed, whole = fitter.settings.seed, fitter.split
    chosen = sample_groups(groups, whole.part_of_row, n_rows, is_ordered=is_ordered, seed=seed)
    split, groups = whole.rows(chosen), groups[chosen]
    rows = fitter.pair.source.take(chosen), fitter.pair.target.take(chosen)
    places, _ = input_places(fitter.pair.aligned.index)
    draw = partial(
        shuffled_pairing_null,
        *rows,
        fit_all=fitter.fit_all,
        n_shuffles=n_shuffles,
        seed=seed,
        identity=places[chosen],
    )
    taking_part = ShuffledRows(groups, split, is_ordered, seed)
    return draw_nulls(fitter.names, taking_part, fitter.settings, draw)


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
    row_bytes = COPIES * 8 * sum(dims)
    room = machine.memory_bytes // row_bytes
    fewest = min(n_rows, FEWEST_ROWS)
    if room < fewest:
        raise InputError(
            f"the memory cap is {machine.memory_bytes} bytes, and a null on {fewest} rows needs "
            f"{fewest * row_bytes}; raise the cap, or leave nulls out (--null 0 --gaussian-null 0)"
        )
    return min(n_rows, MAX_NULL_ROWS, room)


def affordable_shuffles(fitter: PairFitter, n_rows: int) -> int:
    """Return how many shuffles the budget allows, between 9 and 99."""
    p, q = fitter.pair.total.source_dim, fitter.pair.total.target_dim
    n_fits = 1 + len(fitter.split.judged)
    solving = 30 * max(p, q) ** 3 * n_fits
    judged = min(n_rows, max(MAX_JUDGED, int(CHEAP / (p * q))))
    judging = 2 * judged * p * q * len(fitter.names) * (2 if fitter.split.judged else 1)
    cost = 2 * n_rows * p * q + solving + judging
    return int(np.clip(NULL_BUDGET / cost, FEWEST_SHUFFLES, MOST_SHUFFLES))
