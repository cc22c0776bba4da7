import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from repalign.experiments.reproduce.results import interval
from repalign.experiments.reproduce.run import reproduce
from repalign.experiments.reproduce.table import table_of
from tests.experiments.reproduce.toy import experiment


@pytest.fixture
def result(tmp_path: Path):
    return reproduce(experiment(), tmp_path)


def test_the_interval_is_students() -> None:
    values = np.random.default_rng(0).standard_normal(7)
    mean, low, high = interval(values)
    expected = ttest_1samp(values, 0).confidence_interval()
    assert (mean, low, high) == pytest.approx((values.mean(), expected.low, expected.high))


def test_too_few_numbers_have_no_interval() -> None:
    assert interval([2.0, math.nan])[0] == 2.0
    assert all(map(math.isnan, interval([2.0])[1:]))
    assert all(map(math.isnan, interval([math.nan])))


def test_every_number_is_a_row_with_its_case_and_seed(result) -> None:
    rows = result.to_records()
    assert len(rows) == 2 * 3 * 4
    assert rows[0].keys() == {
        "experiment", "preset", "case", "mean", "seed", "measure", "at", "value"
    }  # fmt: skip


def test_a_summary_stands_beside_what_was_published(result) -> None:
    found = result.find("high", "value")
    assert (found.published, len(found.values)) == (5.0, 3)
    assert result.find("low", "value").published is None
    with pytest.raises(KeyError):
        result.find("low", "other")


def test_curves_are_kept_apart_and_in_order(result) -> None:
    assert [each.at for each in result.curve("low", "course")] == [1, 2]
    assert {each.measure for each in result.results()} == {"value", "undefined"}


def test_the_table_has_a_line_a_case_with_what_was_published_below(result) -> None:
    table = table_of(result)
    assert table.columns == ("value", "undefined")
    assert [row.label for row in table.lines] == ["low", "high", "  published"]
    mean = result.find("high", "value").mean
    assert table.lines[1].cells[0].startswith(f"{mean:.3f} ±")
    assert table.lines[0].cells[1] == "n/a"
    assert table.lines[2].cells == ("5.000", "")
    assert table.notes == (f"high is {mean:.1f}", "Set-up: there is none.")
