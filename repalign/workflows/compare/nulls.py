"""The null of every error of one pair: what the same fits give on shuffled pairs."""

from dataclasses import dataclass
from functools import partial

import numpy as np

from repalign.aliases import IntArray
from repalign.core.inference.arrangements import plan_shuffles
from repalign.core.inference.nulls import (
    CHEAP,
    MAX_JUDGED,
    NullErrors,
    shuffled_pairing_null,
)
from repalign.core.inference.splits import sample_groups
from repalign.core.moments import PairMoments
from repalign.exceptions import InputError
from repalign.workflows.compare.judge import PairFitter
from repalign.workflows.machine import Machine

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
        names: Names of the maps in their order.
        by_split: What shuffling whole groups gives.
        beyond_groups: By split, what shuffling rows inside their groups gives, where asked for.
        notes: What could not be tested, and why.
    """

    names: tuple[str, ...]
    by_split: dict[str, NullErrors]
    beyond_groups: dict[str, NullErrors]
    notes: tuple[str, ...]


def shuffle_pair(fitter: PairFitter) -> PairNulls | None:
    """Return the shuffled-pairing nulls, or None where none are wanted."""
    n_all = fitter.pair.aligned.n_rows
    n_rows = rows_in_memory(fitter.pair.total, n_all, fitter.machine)
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
    plan = plan_shuffles(groups, split, is_ordered=is_ordered, seed=seed)
    draw = partial(
        shuffled_pairing_null, *rows, fit_all=fitter.fit_all, n_shuffles=n_shuffles, seed=seed
    )
    by_split = by_split_of(draw(plan))
    beyond: dict[str, NullErrors] = {}
    notes = [f"{name}, {null.refusal}" for name, null in by_split.items() if null.refusal]
    if fitter.settings.beyond_groups:
        refusal = beyond_refusal(groups, is_ordered=is_ordered)
        if refusal is None:
            plan = plan_shuffles(groups, split, beyond_groups=True)
            beyond = by_split_of(draw(plan))
        else:
            notes.append(refusal)
    return PairNulls(fitter.names, by_split, beyond, tuple(notes))


def by_split_of(found: tuple[NullErrors, NullErrors | None]) -> dict[str, NullErrors]:
    """Return nulls by the name of their split."""
    in_sample, held_out = found
    named = {"in-sample": in_sample}
    return named if held_out is None else named | {"held-out": held_out}


def beyond_refusal(groups: IntArray, *, is_ordered: bool) -> str | None:
    """Return why rows cannot be shuffled inside their groups; None where they can."""
    if np.unique(groups).size == groups.size:
        return "no p-value beyond the groups: every row is a group of its own"
    if is_ordered:
        return (
            "no p-value beyond the groups: rows of one sample stand in an order (tokens), and "
            "shuffling them would not leave it as it was"
        )
    return None


def rows_in_memory(moments: PairMoments, n_rows: int, machine: Machine) -> int:
    """Return how many rows a null may hold: as many as say anything new, within the memory.

    Raises:
        InputError: The cap holds too few to say anything.
    """
    row_bytes = COPIES * 8 * (moments.source_dim + moments.target_dim)
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
