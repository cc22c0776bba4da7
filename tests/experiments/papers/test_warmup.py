import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from repalign.engine.machine import Machine
from repalign.exceptions import InputError
from repalign.experiments.papers.reports.warmup import (
    ERROR,
    EXACT,
    LEAKS,
    QUANTILES,
    RECONSTRUCTION,
    SHOWN,
    SPREAD,
    TERM,
    UNTRAINED,
    pooled_runs,
    sentences,
)
from repalign.experiments.papers.warmup import EXPERIMENT, PAPER, SMALL, measure
from repalign.experiments.reproduce.experiment import Measured, Outcome, Work
from repalign.experiments.reproduce.results import Reproduction
from repalign.simulation.fitting import Budget

HERE = Work(Path(), Machine())
QUICK = Budget(200, 64, 1e-2)


def measured(leak: float, seed: int = 0) -> dict[str, float]:
    (case,) = (case for case in SMALL if case.leak == leak and not case.by_digit)
    found = measure(replace(case, budget=QUICK), seed, HERE)
    return {each.measure: each.value for each in found if each.at is None}


def test_an_isometry_is_identified_better_than_a_bent_decoder_and_both_than_before() -> None:
    flat, bent = ([measured(leak, seed) for seed in range(3)] for leak in (1.0, 0.4))
    assert np.mean([each[ERROR] for each in flat]) < np.mean([each[ERROR] for each in bent])
    for each in (*flat, *bent):
        assert each[ERROR] < each[UNTRAINED]
    assert all(each[TERM] < 0.01 for each in flat)
    assert all(each[EXACT] > each[TERM] > 1 for each in bent)


def test_a_pair_a_digit_is_measured_for_every_digit() -> None:
    (case,) = (case for case in SMALL if case.leak == 0.8 and case.by_digit)
    found = measure(replace(case, budget=Budget(20, 16, 1e-2)), 0, HERE)
    values = {each.measure: each.value for each in found if each.at is None}
    errors = [each.value for each in found if each.measure == ERROR and each.at is not None]
    assert len(errors) == 10
    assert values[ERROR] == pytest.approx(np.mean(errors))


def test_images_smaller_than_the_first_layer_are_refused() -> None:
    with pytest.raises(InputError, match=r"64 columns.*\b256\b"):
        measure(PAPER[0], 0, HERE)


def planted(slope: float) -> Reproduction:
    """Pairs on the curve, but for one that did not converge."""

    def outcome(case, seed: int) -> Outcome:
        size = (1 - case.leak) * (1 + seed / 10)
        lost = case.leak == LEAKS[-1] and seed == 2
        values = dict.fromkeys(SHOWN, 1.0)
        values |= {TERM: size, EXACT: 2 * size, ERROR: 0.9 if lost else slope * size}
        values |= {RECONSTRUCTION: 5.0 if lost else 1 - case.leak / 2}
        found = [Measured(*each) for each in values.items()]
        names, places = (ERROR, TERM, RECONSTRUCTION), tuple(range(10))
        if not case.by_digit:
            names, places = (SPREAD,), QUANTILES
        found += [Measured(name, values.get(name, 1.0), at=at) for name in names for at in places]
        return Outcome(case, seed, tuple(found), 0.0)

    outcomes = tuple(outcome(case, seed) for seed in range(3) for case in SMALL)
    return Reproduction(EXPERIMENT, "small", (0, 1, 2), outcomes)


def test_the_filter_drops_what_did_not_converge_and_the_curve_is_found_without_it() -> None:
    runs = pooled_runs(planted(slope=0.1))
    dropped = runs.leak[~runs.kept].tolist()
    assert 0.05 in dropped
    curve = runs.curve(runs.term)
    assert curve.slope == pytest.approx(0.1)
    assert curve.r2 == pytest.approx(1.0)
    lines = sentences(planted(slope=0.1))
    assert re.search(r"of 18 pairs .*\b11 of 60\b.* a = 0\.100\b.* 1\.00\b", lines[1])
    assert re.search(r"of 180 pairs .*\b5 of 180\b", lines[2])
    assert re.search(r"a = 0\.050\b.* 1\.00\b.* 1\.00\b", lines[3])


def test_all_figures_are_drawn() -> None:
    figure = EXPERIMENT.plot(planted(slope=0.1))
    titles = [panel.get_title() for panel in figure.axes if panel.get_title()]
    assert [title.split("(")[0].strip() for title in titles] == [
        "as figure 2", "exact K", "as A.4", "as A.3", "as A.5", "by digit, as A.6"
    ]  # fmt: skip
