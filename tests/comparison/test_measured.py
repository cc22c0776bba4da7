"""Measures of a pair as ``compare`` gives them: values, intervals, nulls, records."""

import re
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import repalign
from repalign.comparison.results import COLUMNS, OWN_COLUMNS, MatchRecord
from repalign.core.measures import MEASURES, measure_called
from repalign.engine.machine import Machine
from tests.core.similarity.pairs import value, value_on

FIELDS = [each.name for each in fields(MatchRecord)]
SETTINGS = repalign.CompareSettings(
    maps=("none",), measures=("all",), held_out=0.25, n_null=19, n_halves=10
)


def pair(n: int = 160, noise: float = 0.5) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    x = rng.laplace(size=(n, 3)) * [3, 2, 1]
    return x, x @ rng.standard_normal((3, 4)) + noise * rng.standard_normal((n, 4))


@pytest.fixture(scope="module")
def related() -> repalign.CompareResult:
    return repalign.compare(*pair(), settings=SETTINGS)


def by_key(result: repalign.CompareResult) -> dict:
    return {(record.measure, record.split): record for record in result.measures}


@pytest.mark.parametrize("measure", MEASURES, ids=lambda measure: measure.name)
def test_values_are_those_of_the_rows_that_judge(
    related: repalign.CompareResult, measure: repalign.core.measures.Measure
) -> None:
    from repalign.core.resampling.groups import held_out_split

    x, y = pair()
    name = measure_called(measure.name).name
    found = by_key(related)
    assert_allclose(found[name, "in-sample"].value, value(name, x, y), rtol=1e-9)
    if not measure_called(name).fits:
        assert (name, "held-out") not in found
        assert found[name, "in-sample"].n_rows == found[name, "in-sample"].n_groups == 160
        return
    part = held_out_split(np.arange(160), 0.25, 0).part_of_row
    order = np.argsort(part, kind="stable")
    held_out = found[name, "held-out"]
    assert (held_out.n_rows, held_out.n_fit_rows) == (40, 120)
    assert_allclose(held_out.value, value_on(name, 120, x[order], y[order]), rtol=1e-9)


def test_every_measure_tells_related_from_shuffled(related: repalign.CompareResult) -> None:
    for record in related.measures:
        sign = measure_called(record.measure).sign
        assert record.p_value == record.smallest_p == 0.05, record
        assert sign * record.value > sign * record.null, record
        if (record.measure, record.split) == ("svcca-20", "in-sample"):
            assert record.ci_low is None  # its intervals by half-samples miss their claim
        else:
            assert record.ci_low < record.value < record.ci_high, record
        assert_allclose(record.null_observed, record.value, rtol=1e-9)


def test_unrelated_rows_are_not_told_apart() -> None:
    x, y = pair()
    shuffled = y[np.random.default_rng(8).permutation(len(y))]
    result = repalign.compare(x, shuffled, settings=SETTINGS)
    assert np.mean([record.p_value > 0.05 for record in result.measures]) > 0.8


def test_folds_are_means_over_rows(related: repalign.CompareResult) -> None:
    settings = repalign.CompareSettings(
        maps=("none",), measures=("linear-cka", "pooled-r2"), held_out=0, n_folds=4, n_null=0
    )
    result = repalign.compare(*pair(), settings=settings)
    found = by_key(result)
    # merged from four parts instead of two
    whole = by_key(related)["linear-cka", "in-sample"].value
    assert_allclose(found["linear-cka", "in-sample"].value, whole, rtol=1e-12)
    assert found["pooled-r2", "held-out"].n_rows == 160
    assert found["pooled-r2", "held-out"].n_folds == 4
    assert found["pooled-r2", "held-out"].p_value is None


def test_the_rows_of_the_table(related: repalign.CompareResult) -> None:
    frame = related.to_frame()
    assert tuple(frame.columns) == (*COLUMNS, "measure", "value", "better")
    assert len(frame) == len(MEASURES) + sum(measure.fits for measure in MEASURES)
    assert frame["map"].isna().all()
    assert set(frame.better) == {"↑", "↓"}
    assert "RSA ρ ↑" in related.table()


def test_measures_beside_maps_change_no_map() -> None:
    alone = repalign.CompareSettings(maps=("rigid",), n_null=9, n_halves=10)
    beside = repalign.CompareSettings(
        maps=("rigid",), measures=("linear-cka",), n_null=9, n_halves=10
    )
    first, second = (repalign.compare(*pair(), settings=each) for each in (alone, beside))
    assert first.records == second.records
    assert tuple(first.to_frame().columns) == COLUMNS
    assert [record.measure for record in second.measures] == ["linear-cka"]
    assert second.to_dict()["measures"][0]["measure"] == "linear-cka"


def test_groups_are_drawn_together_where_rows_are_asked_for() -> None:
    x, y = pair(400)
    settings = repalign.CompareSettings(
        maps=("none",), measures=("mutual-knn", "mean-cca"), measure_rows=200, n_null=9
    )
    result = repalign.compare(x, y, groups=np.repeat(np.arange(80), 5), settings=settings)
    found = by_key(result)
    assert found["mean-cca", "in-sample"].n_rows == 400
    assert found["mutual-knn-10", "in-sample"].n_rows == 200
    assert found["mutual-knn-10", "in-sample"].n_groups == 40
    note = "mutual-knn-10: on 200 of 400 rows, groups drawn at random, as asked for"
    assert note in result.warnings


def test_a_small_memory_takes_fewer_rows_and_says_so() -> None:
    x, y = pair(400)
    settings = repalign.CompareSettings(
        maps=("none",), measures=("rsa-spearman",), n_null=0, n_halves=0
    )
    result = repalign.compare(x, y, settings=settings, machine=Machine(memory_bytes=600_000))
    (in_sample,) = result.measures
    assert in_sample.n_rows < 400
    assert any("as many as the memory cap holds" in warning for warning in result.warnings)


def test_neighbours_of_too_few_rows_are_undefined_and_said() -> None:
    x, y = pair(20)
    settings = repalign.CompareSettings(maps=("none",), measures=("mutual-knn-20",), n_null=9)
    result = repalign.compare(x, y, settings=settings)
    (record,) = result.measures
    assert (record.value, record.ci_low, record.p_value) == (None, None, None)
    assert any("mutual-knn-20: not defined on 20 rows" in text for text in result.warnings)


def binary_pair(seed: int, n: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Unrelated rows of three columns of zeros and ones: nearly all distances are tied."""
    rng = np.random.default_rng(seed)
    x, y = rng.integers(0, 2, size=(2, n, 3)).astype(np.float64)
    return x, y


def test_ties_among_neighbours_make_no_false_positives() -> None:
    settings = repalign.CompareSettings(
        maps=("none",), measures=("mutual-knn-5",), held_out=0, n_null=19, n_halves=0
    )
    results = [repalign.compare(*binary_pair(seed), settings=settings) for seed in range(40)]
    p_values = np.array([result.measures[0].p_value for result in results])
    # 40 trials at .05: more than 6 have a probability below .01; ties by row number gave 40
    assert np.count_nonzero(p_values <= 0.05) <= 6
    values = [result.measures[0].value for result in results]
    assert np.mean(values) == pytest.approx(5 / 59, abs=0.01)


def test_ties_among_neighbours_are_drawn_anew_on_each_side_and_by_the_seed() -> None:
    x, _ = binary_pair(0)
    options = {"maps": "none", "measures": "mutual-knn-5", "null": 0, "halves": 0}
    values = [repalign.compare(x, x + 0.0, **options, seed=k).measures[0].value for k in (0, 0, 1)]
    assert values[0] == values[1] == 1.0  # equal content has equal neighbours
    moved = [repalign.compare(x, 2 * x, **options, seed=k).measures[0].value for k in (0, 0, 1)]
    assert moved[0] == moved[1] != moved[2]
    assert max(moved) < 1.0


def test_the_smallest_p_of_few_groups_counts_only_orders_that_change_the_value() -> None:
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(15), 8)
    x = rng.standard_normal((15, 4))[groups] + 0.1 * rng.standard_normal((120, 4))
    settings = repalign.CompareSettings(
        maps=("none",), measures=("linear-cka", "mutual-knn", "rsa-pearson"), n_null=99, n_halves=0
    )
    result = repalign.compare(x, x @ rng.standard_normal((4, 4)), groups=groups, settings=settings)
    # three groups are held out, whose orders are six: a perfect match had p of 1/6 there
    assert [record.p_value for record in result.measures] == [0.01] * 3
    assert {record.smallest_p for record in result.measures} == {0.01}


def test_nothing_to_compute_is_refused() -> None:
    with pytest.raises(
        repalign.InputError, match="maps: got none, and no measures; expected at least one"
    ):
        repalign.CompareSettings(maps=("none",))


def test_columns_of_measures_and_matches_are_explained() -> None:
    text = (Path(__file__).parents[2] / "docs" / "results.md").read_text(encoding="utf-8")
    for table, wanted in (("| column | meaning |", OWN_COLUMNS), ("| field | meaning |", FIELDS)):
        rows = text.split(table)[-1].split("\n\n")[0].splitlines()[2:]
        names = [name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])]
        assert tuple(names) == tuple(wanted)
