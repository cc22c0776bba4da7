from pathlib import Path

import pytest

from repalign.engine.machine import Machine
from repalign.experiments.papers.gaussian_null import DISJOINT, SAME, TOLD, NullCase, measure
from repalign.experiments.reproduce.experiment import Work


def measured(sources, n_columns: int, seed: int) -> dict[str, float]:
    case = NullCase("x", sources, n_columns, 1000)
    return {m.measure: m.value for m in measure(case, seed, Work(Path(), Machine()))}


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))]
)
def test_gaussian_rows_show_efficiency_only_where_both_sides_saw_them(seed: int) -> None:
    found = measured("gaussian", 64, seed)
    assert found[SAME] > 0.04
    assert found[DISJOINT] < 0.01
    assert found[TOLD] == 0


def test_planted_sources_are_found_on_disjoint_rows_too() -> None:
    found = measured("laplace", 16, 0)
    assert found[SAME] > 0.9
    assert found[DISJOINT] > 0.5
    assert found[TOLD] == 1
