"""How often unrelated rows are called related, and how often intervals hold what they claim.

Rows are Gaussian, alone or in groups that share a part of their variance (intraclass correlation),
of equal or of very unequal sizes. Source and target are unrelated for the false positives at .05
(19 shuffles of whole groups), a rotation with noise apart for the coverage of 95 % intervals and
for the Gaussian twins. A seed is a number of trials, and a result the share of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Literal

import numpy as np

from repalign.core.inference.arrangements import plan_shuffles
from repalign.core.inference.kept_rows import JudgedMap
from repalign.core.inference.left_out import (
    InSample,
    LeftOut,
    leave_groups_out,
    refit_without_groups,
)
from repalign.core.inference.nulls import shuffled_pairing_null
from repalign.core.inference.ranges import ANYWHERE, POSITIVE
from repalign.core.inference.splits import fold_split, held_out_split
from repalign.core.maps.fitting import fit_map
from repalign.core.moments import PairMoments, pair_moments
from repalign.core.rows import ArrayRows
from repalign.experiments.papers.reports.calibration import (
    ABOVE,
    BELOW,
    COVERAGE,
    FALSE_POSITIVES,
    MAPS,
    plot,
    sentences,
)
from repalign.experiments.reproduce.experiment import Case, Experiment, Measured, Preset, Work
from repalign.workflows.compare.settings import CompareSettings

if TYPE_CHECKING:
    from repalign.aliases import FloatArray, IntArray
    from repalign.workflows.machine import Machine

DIM = 4
TRIALS, TWIN_TRIALS = 40, 20
N_TWINS = 4
# Rows by which the held-out error of a fitted map is known: its law, not a sample of it.
N_ELSEWHERE = 4000
Sizes = Literal["alone", "groups of 10", "unequal groups"]


@dataclass(frozen=True)
class CalibrationCase(Case):
    """One law of rows and what is counted on it.

    Attributes:
        counted: False positives, coverage of intervals, or ranks among Gaussian twins.
        n_rows: Rows, about as many for unequal groups.
        sizes: Of the groups of rows.
        icc: Share of the variance that the rows of a group have in common.
        folds: Cross-validated in five folds instead of one fifth held out.
        ica_rows: On which rows the ICA of twins is fitted.
        n_columns: Columns of both sides.
        n_trials: Trials a seed.
    """

    counted: Literal["false positives", "coverage", "twins"]
    n_rows: int
    sizes: Sizes = "alone"
    icc: float = 0.0
    folds: bool = False
    ica_rows: Literal["same", "disjoint"] = "same"
    n_columns: int = DIM
    n_trials: int = TRIALS


def group_sizes(case: CalibrationCase) -> "IntArray":
    """Return the number of rows of every group."""
    n = case.n_rows
    if case.sizes == "alone":
        return np.ones(n, dtype=np.int64)
    if case.sizes == "groups of 10":
        return np.full(n // 10, 10)
    # the largest a third of the rows, then a half of that, a third, …
    return np.maximum(1, n / 3 / np.arange(1, n // 10 + 1)).astype(np.int64)


def draw(
    sizes: "IntArray", icc: float, rng: np.random.Generator, dim: int = DIM
) -> tuple["FloatArray", "IntArray"]:
    """Return one representation and its groups."""
    groups = np.repeat(np.arange(len(sizes)), sizes)
    shared = rng.standard_normal((len(sizes), dim))[groups]
    own = rng.standard_normal((groups.size, dim))
    return np.sqrt(icc) * shared + np.sqrt(1 - icc) * own, groups


def measure(case: Case, seed: int, work: Work) -> Sequence[Measured]:
    """Return the shares of this seed's trials; no two seeds have a trial in common."""
    assert isinstance(case, CalibrationCase)
    trials = range(seed * case.n_trials, (seed + 1) * case.n_trials)
    if case.counted == "twins":
        return _twin_ranks(case, trials, work)
    found = _false_positives if case.counted == "false positives" else _coverage
    names = FALSE_POSITIVES if case.counted == "false positives" else COVERAGE
    shares = found(case, trials).ravel()
    return [Measured(name, float(share)) for name, share in zip(names, shares, strict=True)]


def _fit_all(moments: PairMoments, _: int | None) -> list[JudgedMap]:
    return [JudgedMap(fit_map(name, moments)) for name in MAPS]


def _false_positives(case: CalibrationCase, trials: Sequence[int]) -> "FloatArray":
    """Return the share of p ≤ .05 by split (in-sample, held-out) and map."""
    counts, sizes = np.zeros((2, len(MAPS))), group_sizes(case)
    for trial in trials:
        rng = np.random.default_rng(trial)
        (x, groups), (y, _) = draw(sizes, case.icc, rng), draw(sizes, case.icc, rng)
        split = fold_split(groups, 5, trial) if case.folds else held_out_split(groups, 0.2, trial)
        plan = plan_shuffles(groups, split, seed=trial)
        nulls = shuffled_pairing_null(x, y, plan, fit_all=_fit_all, n_shuffles=19, seed=trial)
        for number, null in enumerate(nulls):
            assert null is not None
            counts[number] += null.p_values() <= 0.05
    return counts / len(trials)


def _coverage(case: CalibrationCase, trials: Sequence[int]) -> "FloatArray":
    """Return the share of intervals that hold what they claim, by split and map.

    In-sample, the mean error over the trials stands for that of the procedure. Refused intervals
    (one group with most of the rows) are left out.
    """
    found = [_one_fit(case, trial) for trial in trials]
    expected = np.mean([each.error for each in found], axis=0)
    inside = [_holds(each.in_sample, expected) for each in found]
    outside = [_holds(each.held_out, each.elsewhere) for each in found]
    return np.array([np.nanmean(inside, axis=0), np.nanmean(outside, axis=0)])


@dataclass(frozen=True, eq=False)
class _Fit:
    """By map: the in-sample error, the ends of both intervals, the error on other rows."""

    error: "FloatArray"
    in_sample: "FloatArray"
    held_out: "FloatArray"
    elsewhere: "FloatArray"


def _holds(ends: "FloatArray", value: "FloatArray") -> "FloatArray":
    """Return 1 or 0 by map, NaN where there is no interval."""
    holds = (ends[:, 0] <= value) & (value <= ends[:, 1])
    return np.where(np.isnan(ends[:, 0]), np.nan, holds)


def _one_fit(case: CalibrationCase, trial: int) -> _Fit:
    rng = np.random.default_rng(trial)
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((DIM, DIM)))[0]
    sizes = group_sizes(case)
    x, groups = draw(sizes, case.icc, rng)
    y = x @ turn + draw(sizes, case.icc, rng)[0]
    (moments,) = pair_moments(ArrayRows(x), ArrayRows(y))
    errors = np.stack([judged.errors(x, y) for judged in _fit_all(moments, None)])
    whole = InSample(ArrayRows(x), ArrayRows(y), moments, errors, groups)
    split = held_out_split(groups, 0.2, trial)
    fit, judge = split.fitting_rows(1), split.judged_rows(1)
    (fitting,) = pair_moments(ArrayRows(x[fit]), ArrayRows(y[fit]))
    maps = _fit_all(fitting, None)
    judged = np.stack([each.errors(x[judge], y[judge]) for each in maps])
    far, alone = np.random.default_rng(10**6 + trial), np.ones(N_ELSEWHERE, dtype=np.int64)
    other = draw(alone, case.icc, far)[0]
    wanted = other @ turn + draw(alone, case.icc, far)[0]
    return _Fit(
        errors.mean(axis=1),
        _ends(refit_without_groups(whole, _fit_all, seed=trial), is_held_out=False),
        _ends(leave_groups_out(judged, groups[judge]), is_held_out=True),
        np.array([each.mean_error(other, wanted) for each in maps]),
    )


def _ends(left_out: LeftOut, *, is_held_out: bool) -> "FloatArray":
    found = [
        left_out.interval(itemgetter((..., number)), within=POSITIVE if is_held_out else ANYWHERE)
        for number in range(len(MAPS))
    ]
    return np.array([(each.low, each.high) for each in found])


def _twin_ranks(case: CalibrationCase, trials: Sequence[int], work: Work) -> list[Measured]:
    """Return how often the efficiency of a Gaussian pair is above, and below, all of its twins'."""
    found = [twin_efficiencies(case, trial, work.machine) for trial in trials]
    above = np.mean([observed > max(twins) for observed, twins in found])
    below = np.mean([observed < min(twins) for observed, twins in found])
    return [Measured(ABOVE, float(above)), Measured(BELOW, float(below))]


def twin_efficiencies(
    case: CalibrationCase, trial: int, machine: "Machine"
) -> tuple[float, Sequence[float]]:
    """Return the in-sample ICA efficiency of a Gaussian pair, and those of its Gaussian twins.

    The efficiency is that of the errors, since ``compare`` gives none where nothing is
    identifiable, as here.
    """
    from repalign.workflows.compare.run import compare

    dim, seed = case.n_columns, 1000 * trial
    turn = np.linalg.qr(np.random.default_rng(dim).standard_normal((dim, dim)))[0]
    rng = np.random.default_rng(seed)
    x, groups = draw(group_sizes(case), case.icc, rng, dim)
    y = x @ turn + 0.1 * rng.standard_normal(x.shape)
    settings = CompareSettings(
        maps=("permutation", "rigid", "ica"), held_out=0.0, n_null=0, n_refits=0, seed=seed,
        n_gaussian=N_TWINS, starts=1, ica_rows=case.ica_rows,
    )  # fmt: skip
    result = compare(x, y, groups=groups, settings=settings, machine=machine)
    errors = {record.map: record.error for record in result.records}
    permutation, rigid, ica = (float(errors[name] or 0) for name in settings.maps)
    twins = result.pairs[0].gaussian_efficiencies["in-sample"]
    return (permutation - ica) / (permutation - rigid), twins


LAWS: Mapping[str, tuple[Sizes, float]] = {
    "rows alone": ("alone", 0.0),
    "groups of 10, ICC .2": ("groups of 10", 0.2),
    "unequal groups, ICC .2": ("unequal groups", 0.2),
    "groups of 10, ICC .8": ("groups of 10", 0.8),
    "unequal groups, ICC .8": ("unequal groups", 0.8),
}


def _cases(n_rows: int) -> tuple[CalibrationCase, ...]:
    found = []
    for name, (sizes, icc) in LAWS.items():
        for folds in (False, True):
            split = "five folds" if folds else "one fifth held out"
            label = f"p ≤ .05, {n_rows} {name}, {split}"
            found.append(CalibrationCase(label, "false positives", n_rows, sizes, icc, folds))
        label = f"95 %, {n_rows} {name}"
        found.append(CalibrationCase(label, "coverage", n_rows, sizes, icc))
    return tuple(found)


def twin_case(
    dim: int, ica_rows: Literal["same", "disjoint"], sizes: Sizes = "alone", icc: float = 0.0
) -> CalibrationCase:
    """Return the case of Gaussian pairs of so many columns against their twins."""
    what = "rows alone" if sizes == "alone" else f"{sizes}, ICC {icc:g}"
    label = f"twins, 400 {what}, {dim} columns, {ica_rows} rows"
    return CalibrationCase(
        label, "twins", 400, sizes, icc, False, ica_rows, dim, TWIN_TRIALS
    )  # fmt: skip


SMALL = (*_cases(300), twin_case(6, "disjoint"))
LARGE = (
    *_cases(300),
    *_cases(2000),
    *(twin_case(dim, rows) for dim in (6, 20, 40) for rows in ("same", "disjoint")),
    *(twin_case(6, "disjoint", sizes, 0.5) for sizes in ("groups of 10", "unequal groups")),
)

EXPERIMENT = Experiment(
    name="calibration",
    paper="none: a check of this tool",
    shows="how often p-values and intervals hold what they claim, on rows of known laws",
    needs="nothing",
    differs=(
        "there is nothing published. The small preset has 300 rows of 4 columns; --preset paper "
        "adds 2,000 rows, and Gaussian twins of up to 40 columns and of rows in groups."
    ),
    presets={
        "small": Preset(SMALL, n_seeds=10, seconds_per_seed=16),
        "paper": Preset(LARGE, n_seeds=25, seconds_per_seed=110, is_estimate=True),
    },
    measure=measure,
    sentences=sentences,
    plot=plot,
)
