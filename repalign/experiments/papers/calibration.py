"""How often chance is called a finding, and how often intervals hold what they claim.

Rows of known laws, alone or in groups that share a part of their variance (intraclass
correlation), of equal or of very unequal sizes. A seed is a number of trials, and a result the
share of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from repalign.core.factors.kinds import DEFAULT_GROUPS, GROUPS
from repalign.experiments.calibration import maps, scores, twins
from repalign.experiments.calibration.laws import CalibrationCase, Sizes
from repalign.experiments.papers.reports.calibration import plot, sentences
from repalign.experiments.reproduce.experiment import Case, Experiment, Measured, Preset, Work

TRAINED = tuple(group.name for group in GROUPS if group.trains_predictor and group.is_repeatable)
LAWS: Mapping[str, tuple[Sizes, float]] = {
    "rows alone": ("alone", 0.0),
    "groups of 10, ICC .2": ("groups of 10", 0.2),
    "unequal groups, ICC .2": ("unequal groups", 0.2),
    "groups of 10, ICC .8": ("groups of 10", 0.8),
    "unequal groups, ICC .8": ("unequal groups", 0.8),
}


def measure(case: Case, seed: int, work: Work) -> Sequence[Measured]:
    """Return the shares of this seed's trials; no two seeds have a trial in common."""
    assert isinstance(case, CalibrationCase)
    trials = range(seed * case.n_trials, (seed + 1) * case.n_trials)
    match case.counted:
        case "twins":
            return twins.ranks(case, trials, work.machine)
        case "coverage":
            return maps.coverage(case, trials)
        case "coverage of scores":
            return scores.coverage(case, trials)
        case "false positives of scores":
            return scores.false_positives(case, trials)
        case _:
            return maps.false_positives(case, trials)


def _of_maps(n_rows: int) -> tuple[CalibrationCase, ...]:
    found = []
    for name, (sizes, icc) in LAWS.items():
        told = f"{n_rows} {name}"
        held_out = CalibrationCase(
            f"p ≤ .05, {told}, one fifth held out", "false positives", n_rows, sizes, icc
        )
        folds = replace(held_out, name=f"p ≤ .05, {told}, five folds", folds=True)
        found += [held_out, folds]
        if icc == 0.8:
            beyond = f"p beyond groups ≤ .05, {told}, one fifth held out"
            found.append(replace(held_out, name=beyond, counted="false positives beyond groups"))
        found += [
            replace(each, name=each.name.replace("p ≤ .05", "95 %"), counted="coverage")
            for each in (held_out, folds)
        ]
    return tuple(found)


def _of_scores() -> tuple[CalibrationCase, ...]:
    found = []
    for name, (sizes, icc) in LAWS.items():
        case = CalibrationCase(
            f"95 %, scores, 300 {name}", "coverage of scores", 300, sizes, icc,
            scores=DEFAULT_GROUPS,
        )  # fmt: skip
        found.append(case)
        if icc == 0.2:
            continue
        shuffled = replace(case, counted="false positives of scores")
        found.append(replace(shuffled, name=f"p ≤ .05, scores, 300 {name}"))
        if icc:
            told = f"p ≤ .05, scores, 300 {name}, constant factors"
            found.append(replace(shuffled, name=told, factors="constant"))
    return tuple(found)


def _trained(cases: Sequence[CalibrationCase]) -> tuple[CalibrationCase, ...]:
    """Return the cases of scores that train predictors: rows alone, and groups as they come."""
    return tuple(
        replace(case, name=case.name.replace("scores", "trained scores"), scores=TRAINED)
        for case in cases
        if case.sizes == "alone"
        or (case.icc == 0.8 and (case.factors == "constant" or case.counted.startswith("cov")))
    )


def _of_twins(dim: int, name: str = "rows alone") -> tuple[CalibrationCase, ...]:
    """Return the cases of Gaussian pairs of so many columns against their twins."""
    sizes, icc = LAWS[name]
    same = CalibrationCase(
        f"twins, 400 {name}, {dim} columns, same rows", "twins", 400, sizes, icc, n_columns=dim
    )
    name = f"twins, 400 {name}, {dim} columns, disjoint rows"
    return same, replace(same, name=name, ica_rows="disjoint")


def _quick(cases: Sequence[CalibrationCase]) -> tuple[CalibrationCase, ...]:
    """Return the cases less what takes longest: in-sample intervals, of most laws."""
    kept = {LAWS[name] for name in ("rows alone", "groups of 10, ICC .2")}
    return tuple(
        case
        for case in cases
        if case.counted != "coverage" or case.folds or (case.sizes, case.icc) in kept
    )


SMALL = (*_quick(_of_maps(300)), *_of_scores(), _of_twins(6)[1])
LARGE = (
    *_of_maps(300),
    *_of_maps(2000),
    *_of_scores(),
    *_trained(_of_scores()),
    *(case for dim in (6, 20, 40) for case in _of_twins(dim)),
    *(_of_twins(6, name)[1] for name, (sizes, _) in LAWS.items() if sizes != "alone"),
)

EXPERIMENT = Experiment(
    name="calibration",
    paper="none: a check of this tool",
    shows="how often p-values and intervals hold what they claim, on rows of known laws",
    needs="nothing",
    differs=(
        "there is nothing published. The small preset has 300 rows and 150 trials, and in-sample "
        "intervals of two of the five laws; --preset paper adds the others, 2,000 rows, scores "
        "that train predictors, twins of up to 40 columns and of rows in groups, and has 400 "
        "trials."
    ),
    presets={
        "small": Preset(SMALL, n_seeds=3, seconds_per_seed=255),
        "paper": Preset(LARGE, n_seeds=8, seconds_per_seed=1110),
    },
    measure=measure,
    sentences=sentences,
    plot=plot,
    version=6,
)
