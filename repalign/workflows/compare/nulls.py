"""The nulls of one pair: shuffled pairing for every error, a Gaussian twin for the efficiency."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from repalign.aliases import FloatArray, IntArray
from repalign.core.errors.efficiency import ica_efficiency
from repalign.core.inference.gaussian_twin import draw_gaussian_twin
from repalign.core.inference.nulls import (
    CHEAP,
    MAX_JUDGED,
    NullErrors,
    plan_shuffles,
    shuffled_pairing_null,
)
from repalign.core.inference.splits import sample_groups
from repalign.core.maps.fitting import IcaPair, MapInputs, fit_maps
from repalign.core.moments import PairMoments, pair_moments
from repalign.core.rows import ArrayRows
from repalign.exceptions import InputError
from repalign.workflows.compare.judge import PairFitter
from repalign.workflows.compare.settings import CompareSettings
from repalign.workflows.compare.spaces import fit_space
from repalign.workflows.machine import Machine

# A null on more rows costs more and says the same: far from n ≈ p it no longer depends on n.
MAX_NULL_ROWS = 20_000
FEWEST_ROWS = 50
# Of each row a null holds the value itself, in double precision, and shuffled.
COPIES = 3
# Multiplications that the nulls of one pair may take unless a number of draws is asked for:
# some seconds on two cores.
NULL_BUDGET = 1.5e11
GAUSSIAN_BUDGET = 1.5e11
FEWEST_SHUFFLES, MOST_SHUFFLES = 9, 99
ICA_PASSES = 300
EFFICIENCY_MAPS = ("permutation", "rigid", "ica")


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
    by_split = _by_split(draw(plan))
    beyond: dict[str, NullErrors] = {}
    notes = [f"{name}, {null.refusal}" for name, null in by_split.items() if null.refusal]
    if fitter.settings.beyond_groups:
        refusal = _beyond_refusal(groups, is_ordered=is_ordered)
        if refusal is None:
            plan = plan_shuffles(groups, split, beyond_groups=True)
            beyond = _by_split(draw(plan))
        else:
            notes.append(refusal)
    return PairNulls(fitter.names, by_split, beyond, tuple(notes))


def _by_split(found: tuple[NullErrors, NullErrors | None]) -> dict[str, NullErrors]:
    in_sample, held_out = found
    named = {"in-sample": in_sample}
    return named if held_out is None else named | {"held-out": held_out}


def _beyond_refusal(groups: IntArray, *, is_ordered: bool) -> str | None:
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


def gaussian_efficiencies(
    moments: PairMoments, settings: CompareSettings, machine: Machine
) -> tuple[float, ...]:
    """Return the ICA efficiency on Gaussian twins of the pair, where it identifies nothing.

    The twins have the means and covariances of the pair, and as many rows up to a limit.
    """
    n_rows = rows_in_memory(moments, moments.n, machine)
    dim = max(moments.source_dim, moments.target_dim)
    wanted = settings.n_gaussian
    if wanted is None:
        wanted = int(4 * n_rows * dim**2 * 2 * ICA_PASSES <= GAUSSIAN_BUDGET)
    return tuple(
        _twin_efficiency(moments, n_rows, settings, machine, number) for number in range(wanted)
    )


def _twin_efficiency(
    moments: PairMoments, n_rows: int, settings: CompareSettings, machine: Machine, number: int
) -> float:
    source, target = draw_gaussian_twin(moments, n_rows, seed=settings.seed + 1 + number)
    half = n_rows // 2
    is_disjoint = settings.ica_rows == "disjoint"
    source_rows = source[:half] if is_disjoint else source
    target_rows = target[half:] if is_disjoint else target
    (twin,) = pair_moments(ArrayRows(source), ArrayRows(target), **machine.limits("null"))
    sides = (
        ("source", source_rows, twin.mean_x, twin.sxx),
        ("target", target_rows, twin.mean_y, twin.syy),
    )
    fits = [
        fit_space(
            ArrayRows(rows),
            mean=mean,
            covariance=scatter / twin.n,
            settings=replace(settings, ica_seeds=1),
            machine=machine,
            content=f"Gaussian twin {number}, {side}",
        ).fit
        for side, rows, mean, scatter in sides
    ]
    given = MapInputs(twin, IcaPair(*fits), settings.permutation_cost)
    maps = fit_maps(EFFICIENCY_MAPS, given).by_name
    errors = [maps[name].mean_error(source, target) for name in EFFICIENCY_MAPS]
    return efficiency_of(errors, target)


def efficiency_of(errors: Sequence[float], target: FloatArray) -> float:
    """Return the efficiency of permutation, rigid and ICA errors on rows in memory."""
    radius = float(np.linalg.norm(target - target.mean(axis=0), axis=1).max())
    permutation, rigid, ica = (np.asarray(error / max(radius, 1e-300)) for error in errors)
    return float(ica_efficiency(permutation, rigid, ica))
