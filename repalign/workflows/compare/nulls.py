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
from repalign.workflows.compare.judge import PairFitter
from repalign.workflows.compare.settings import CompareSettings
from repalign.workflows.compare.space_ica import SEED_STRIDE, fit_space
from repalign.workflows.machine import Machine

# A null on more rows costs more and says the same: far from n ≈ p it no longer depends on n.
MAX_NULL_ROWS = 20_000
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
    n_rows = min(fitter.pair.n_rows, MAX_NULL_ROWS)
    wanted = fitter.settings.n_null
    n_shuffles = affordable_shuffles(fitter, n_rows) if wanted is None else wanted
    if n_shuffles == 0:
        return None
    rng = np.random.default_rng(fitter.settings.seed)
    chosen = np.sort(rng.choice(fitter.pair.n_rows, n_rows, replace=False))
    whole = fitter.pair.split
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


def affordable_shuffles(fitter: PairFitter, n_rows: int) -> int:
    """Return how many shuffles the budget allows, between 9 and 99."""
    p, q = fitter.total.source_dim, fitter.total.target_dim
    n_fits = 1 + len(fitter.pair.split.judged)
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
    n_rows = min(moments.n, MAX_NULL_ROWS)
    dim = max(moments.source_dim, moments.target_dim)
    wanted = settings.n_gaussian
    if wanted is None:
        wanted = int(4 * n_rows * dim**2 * 2 * ICA_PASSES <= GAUSSIAN_BUDGET)
    return tuple(
        _twin_efficiency(moments, n_rows, settings, machine, seed=settings.seed + 1 + number)
        for number in range(wanted)
    )


def _twin_efficiency(
    moments: PairMoments, n_rows: int, settings: CompareSettings, machine: Machine, *, seed: int
) -> float:
    source, target = draw_gaussian_twin(moments, n_rows, seed=seed)
    half = n_rows // 2
    is_disjoint = settings.ica_rows == "disjoint"
    source_rows = source[:half] if is_disjoint else source
    target_rows = target[half:] if is_disjoint else target
    (twin,) = pair_moments(ArrayRows(source), ArrayRows(target))
    fits = [
        fit_space(
            ArrayRows(rows),
            mean=mean,
            covariance=scatter / twin.n,
            settings=replace(settings, ica_seeds=1),
            machine=machine,
            seed=seed + number * SEED_STRIDE,
        ).fit
        for number, (rows, mean, scatter) in enumerate(
            (
                (source_rows, twin.mean_x, twin.sxx),
                (target_rows, twin.mean_y, twin.syy),
            )
        )
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
