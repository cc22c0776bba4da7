"""False positives and coverage of every map: the functions of ``compare``, on known laws.

Every side has columns of heavy tails. For false positives the sides are drawn apart; for coverage
the target is a rotation of the source with noise.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np

from repalign.core.errors.efficiency import ica_efficiency
from repalign.core.inference.arrangements import plan_shuffles
from repalign.core.inference.kept_rows import JudgedMap
from repalign.core.inference.left_out import (
    LeftOut,
    Statistic,
    leave_groups_out,
)
from repalign.core.inference.nulls import shuffled_pairing_null
from repalign.core.inference.ranges import ANYWHERE, POSITIVE, Range
from repalign.core.inference.refits import InSample, refit_without_groups
from repalign.core.inference.splits import (
    Split,
    fold_split,
    held_out_split,
    no_split,
    quartering,
    samples_of,
)
from repalign.core.maps.kinds import KIND_OF
from repalign.core.moments import pair_moments
from repalign.core.rows import ArrayRows
from repalign.experiments.calibration.fits import JUDGED, FittedIca
from repalign.experiments.calibration.laws import (
    DIM,
    CalibrationCase,
    draw_gaussian,
    draw_sources,
    groups_of,
)
from repalign.experiments.reproduce.experiment import Measured
from repalign.workflows.compare.spaces import MOST_HALVINGS

if TYPE_CHECKING:
    from repalign.aliases import FloatArray, IntArray

    Pair = tuple[FloatArray, FloatArray]

N_SHUFFLES = 19
NOISE = 0.5
# By so many new rows errors elsewhere are known, and those of maps of all rows by more of them.
N_ELSEWHERE, N_REFERENCE = 4000, 200_000
EFFICIENCIES = {"efficiency": "ica", "efficiency (disjoint)": "ica (disjoint)"}
COUNTED = (*JUDGED, *EFFICIENCIES)
PAIRED = tuple(name for name in JUDGED if KIND_OF[name.split(" ")[0]].is_paired)
SPLITS = ("in-sample", "held-out")


def false_positives(case: CalibrationCase, trials: Sequence[int]) -> list[Measured]:
    """Return the share of p ≤ .05 by split and map, where the sides have nothing in common.

    Beyond groups, they have in common all that the rows of a group share.
    """
    is_beyond = case.counted == "false positives beyond groups"
    counts, groups = np.zeros((2, len(JUDGED))), groups_of(case)
    for trial in trials:
        rng = np.random.default_rng((trial, 3))
        x, y = (draw_sources(groups, 0.0 if is_beyond else case.icc, rng) for _ in range(2))
        if is_beyond:
            common = draw_sources(groups, 1.0, rng)
            x, y = (np.sqrt(case.icc) * common + np.sqrt(1 - case.icc) * own for own in (x, y))
        split = _split(case, groups, trial)
        ica = FittedIca.of((x, y), split, (None, *split.judged), trial)
        plan = plan_shuffles(groups, split, beyond_groups=is_beyond, seed=trial)
        nulls = shuffled_pairing_null(
            x, y, plan, fit_all=ica.fit_all, n_shuffles=N_SHUFFLES, seed=trial
        )
        for number, null in enumerate(nulls):
            assert null is not None
            counts[number] += null.p_values() <= 0.05
    return [
        Measured(f"p ≤ .05, {split}, {name}", counts[i, JUDGED.index(name)] / len(trials))
        for i, split in enumerate(SPLITS)
        for name in _told(case, PAIRED)
    ]


def _split(case: CalibrationCase, groups: "IntArray", trial: int) -> Split:
    return fold_split(groups, 5, trial) if case.folds else held_out_split(groups, 0.2, trial)


def _told(case: CalibrationCase, names: Sequence[str]) -> Sequence[str]:
    """Return the numbers that a case counts: those of disjoint rows without folds only."""
    return [name for name in names if not (case.folds and "disjoint" in name)]


def coverage(case: CalibrationCase, trials: Sequence[int]) -> list[Measured]:
    """Return the share of intervals that hold what they claim, by split and number.

    In-sample, the mean over the trials stands for what the procedure gives on average; folds have
    the same in-sample errors, which are not counted again. Refused intervals (one group with most
    of the rows) are left out.
    """
    splits = SPLITS[1:] if case.folds else SPLITS
    found = [_one_pair(case, trial) for trial in trials]
    claimed = np.array([each.claimed for each in found])
    if not case.folds:
        claimed[:, 0] = np.nanmean(claimed[:, 0], axis=0)
    low, high = (np.array([each.ends[..., end] for each in found]) for end in (0, 1))
    holds = np.where(np.isnan(low), np.nan, (low <= claimed) & (claimed <= high))
    return [
        Measured(f"held, {split}, {name}", float(np.nanmean(holds[:, i, COUNTED.index(name)])))
        for i, split in enumerate(splits)
        for name in _told(case, COUNTED)
    ]


@dataclass(frozen=True, eq=False)
class _Intervals:
    """By split and number: what the interval claims (in-sample: what was found), its two ends."""

    claimed: "FloatArray"
    ends: "FloatArray"


def _one_pair(case: CalibrationCase, trial: int) -> _Intervals:
    groups = groups_of(case)
    pair = related_sides(groups, case.icc, np.random.default_rng((trial, 4)))
    split = _split(case, groups, trial)
    outside = _held_out(pair, groups, split, _Elsewhere.of(case.icc, trial), trial)
    both = [outside] if case.folds else [_in_sample(pair, groups, trial), outside]
    return _Intervals(np.array([each[0] for each in both]), np.array([each[1] for each in both]))


def related_sides(groups: "IntArray", icc: float, rng: np.random.Generator) -> "Pair":
    """Return a source and its rotation with noise, which has the same groups."""
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((DIM, DIM)))[0]
    x = draw_sources(groups, icc, rng)
    return x, x @ turn + NOISE * draw_gaussian(groups, icc, rng)


def _in_sample(pair: "Pair", groups: "IntArray", trial: int) -> tuple["FloatArray", "FloatArray"]:
    """Return the errors on all rows, and their intervals."""
    x, y = (ArrayRows(side) for side in pair)
    (moments,) = pair_moments(x, y)
    ica = FittedIca.of(pair, no_split(len(groups)), [None], trial)
    errors = np.stack([each.errors(*pair) for each in ica.fit_all(moments, None)])
    refitted = refit_without_groups(
        InSample(x, y, moments, errors, groups),
        ica.fit_all,
        leaving=partial(ica.leaving, pair),
        seed=trial,
    )
    found = np.array([_of_samples(pair, groups, (trial, k)) for k in range(MOST_HALVINGS)])
    quarters = found[:, 2:].reshape(MOST_HALVINGS, 2, 2, -1)
    told = _ends(replace(refitted, halves=found[:, :2], quarters=quarters), within=ANYWHERE)
    return _with_efficiencies(errors.mean(axis=1)), told


def _of_samples(pair: "Pair", groups: "IntArray", seed: tuple[int, int]) -> list["FloatArray"]:
    """Return the mean errors of every map on both halves and four quarters, which fitted it."""
    split = quartering(groups, seed)
    found = []
    for parts in samples_of(split):
        rows = np.flatnonzero(np.isin(split.part_of_row, parts))
        sample = pair[0][rows], pair[1][rows]
        (moments,) = pair_moments(*(ArrayRows(side) for side in sample))
        ica = FittedIca.of(sample, no_split(rows.size), [None], seed[0])
        found.append(np.array([each.mean_error(*sample) for each in ica.fit_all(moments, None)]))
    return found


def _held_out(
    pair: "Pair", groups: "IntArray", split: Split, elsewhere: "_Elsewhere", trial: int
) -> tuple["FloatArray", "FloatArray"]:
    """Return the errors elsewhere of the maps of a split, by their rows, and their intervals."""
    x, y = pair
    ica = FittedIca.of(pair, split, split.judged, trial)
    errors, places, claimed = [], [], np.zeros(len(JUDGED))
    for part in split.judged:
        fit, judge = split.fitting_rows(part), split.judged_rows(part)
        (moments,) = pair_moments(ArrayRows(x[fit]), ArrayRows(y[fit]))
        maps = ica.fit_all(moments, part)
        errors.append(np.stack([each.errors(x[judge], y[judge]) for each in maps]))
        claimed += elsewhere.errors(maps) * judge.size
        places.append(judge)
    rows = np.concatenate(places)
    left_out = leave_groups_out(np.concatenate(errors, axis=1), groups[rows], seed=trial)
    return _with_efficiencies(claimed / rows.size), _ends(left_out, within=POSITIVE)


@dataclass(frozen=True, eq=False)
class _Elsewhere:
    """New rows, on which a map is judged beside one whose error everywhere is known.

    The difference of the two varies less than the error, and so needs fewer rows.
    """

    x: "FloatArray"
    y: "FloatArray"
    known_here: "FloatArray"
    known: "FloatArray"

    @classmethod
    def of(cls, icc: float, trial: int) -> "_Elsewhere":
        maps, known = _reference(icc)
        rng = np.random.default_rng((trial, 5))
        x, y = related_sides(np.arange(N_ELSEWHERE), icc, rng)
        # one row a group: the law of a single row, which is the same in groups of any size
        return cls(x, y, np.array([each.mean_error(x, y) for each in maps]), known)

    def errors(self, maps: Sequence[JudgedMap]) -> "FloatArray":
        here = np.array([each.mean_error(self.x, self.y) for each in maps])
        return self.known + here - self.known_here


@cache
def _reference(icc: float) -> tuple[list[JudgedMap], "FloatArray"]:
    """Return maps of very many rows of a law, and their errors."""
    x, y = related_sides(np.arange(N_REFERENCE), icc, np.random.default_rng(6))
    (moments,) = pair_moments(ArrayRows(x), ArrayRows(y))
    ica = FittedIca.of((x, y), no_split(len(x)), [None], 0)
    maps = ica.fit_all(moments, None)
    return maps, np.array([each.mean_error(x, y) for each in maps])


def _efficiency(means: "FloatArray", ica: str) -> "FloatArray":
    return ica_efficiency(
        *(means[..., JUDGED.index(name)] for name in ("permutation", "rigid", ica))
    )


def _with_efficiencies(means: "FloatArray") -> "FloatArray":
    return np.array([*means, *(_efficiency(means, ica) for ica in EFFICIENCIES.values())])


def _ends(left_out: LeftOut, *, within: Range) -> "FloatArray":
    """Return the ends of the intervals of all numbers; those that hang on ICA by halves too."""
    found = []
    for name in COUNTED:
        is_efficiency = name in EFFICIENCIES
        of: Statistic = itemgetter((..., COUNTED.index(name)))
        if is_efficiency:
            of = partial(_efficiency, ica=EFFICIENCIES[name])
        interval = left_out.interval(of, within=ANYWHERE if is_efficiency else within)
        if is_efficiency or KIND_OF[name.split(" ")[0]].needs_ica:
            interval = interval.reaching(float(of(left_out.full)), left_out.reach(of))
        found.append((interval.low, interval.high))
    return np.array(found)
