"""The nulls of one pair: shuffled pairing for every error, a Gaussian twin for the efficiency."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from repalign.aliases import FloatArray
from repalign.core.errors.efficiency import ica_efficiency
from repalign.core.inference.gaussian_twin import draw_gaussian_twin
from repalign.core.inference.nulls import NullErrors, plan_shuffles, shuffled_pairing_null
from repalign.core.inference.splits import Split
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
    """Nulls by split, with the names of the maps in their order."""

    names: tuple[str, ...]
    by_split: dict[str, NullErrors]
    n_rows: int


def shuffle_pair(fitter: PairFitter) -> PairNulls | None:
    """Return the shuffled-pairing nulls, or None where none are wanted."""
    n_all = fitter.pair.aligned.n_rows
    n_rows = rows_in_memory(fitter.pair.total, n_all, fitter.machine)
    wanted = fitter.settings.n_null
    n_shuffles = affordable_shuffles(fitter, n_rows) if wanted is None else wanted
    if n_shuffles == 0:
        return None
    rng = np.random.default_rng(fitter.settings.seed)
    chosen = np.sort(rng.choice(n_all, n_rows, replace=False))
    whole = fitter.split
    split = Split(whole.part_of_row[chosen], whole.n_parts, whole.judged)
    if any(split.judged_rows(part).size == 0 for part in range(split.n_parts)):
        split = Split(np.zeros(n_rows, dtype=np.int64), 1, ())
    fitter.machine.on_stage("null", 0, 1)
    in_sample, held_out = shuffled_pairing_null(
        fitter.pair.source.take(chosen),
        fitter.pair.target.take(chosen),
        plan_shuffles(np.arange(n_rows), split),
        fit_all=fitter.fit_all,
        n_shuffles=n_shuffles,
        seed=fitter.settings.seed,
    )
    by_split = {"in-sample": in_sample}
    if held_out is not None:
        by_split["held-out"] = held_out
    return PairNulls(fitter.names, by_split, n_rows)


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
    judging = 2 * min(n_rows, 4000) * p * q * len(fitter.names) * 2
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
