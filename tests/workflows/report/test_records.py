from pathlib import Path
from typing import Any

import numpy as np
import pytest

from repalign.exceptions import InputError
from repalign.workflows.compare.results import COLUMNS
from repalign.workflows.compare.run import compare
from repalign.workflows.compare.settings import CompareSettings
from repalign.workflows.report.records import MAP_RECORDS, MEASURE_RECORDS, is_measured

KINDS = {"record": MAP_RECORDS, "measure": MEASURE_RECORDS}


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> dict[str, dict[str, Any]]:
    """One record of each kind, as a comparison writes them."""
    folder = tmp_path_factory.mktemp("records")
    rows = np.random.default_rng(0).laplace(size=(40, 3))
    for name in ("a.npy", "b.npy"):
        np.save(folder / name, rows)
    settings = CompareSettings(maps=("rigid",), measures=("linear-cka",), n_null=0, n_rotations=0)
    records = compare(folder / "a.npy", folder / "b.npy", settings=settings).to_records()
    return {
        "record": next(each for each in records if not is_measured(each)),
        "measure": next(each for each in records if is_measured(each)),
    }


@pytest.mark.parametrize("noun", KINDS)
def test_what_was_written_is_read_and_other_columns_stay(written, noun: str) -> None:
    record = written[noun] | {"note": "mine"}
    assert KINDS[noun].checked([record], Path("x.csv")) == [record]


@pytest.mark.parametrize("noun", KINDS)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"split": "later"}, "split: got 'later', expected one of in-sample, held-out"),
        ({"ci_low": None, "ci_high": 0.5}, "has one of ci_low and ci_high, expected both or none"),
        ({"n_rows": "many"}, "n_rows: got 'many', expected a whole number"),
    ],
)
def test_changed_values_are_refused_with_their_record(written, noun, change, message) -> None:
    with pytest.raises(InputError, match=f"x.csv: {noun} 2: {message}"):
        KINDS[noun].checked([written[noun], written[noun] | change], Path("x.csv"))


@pytest.mark.parametrize("noun", KINDS)
def test_a_missing_column_is_named(written, noun: str) -> None:
    record = {name: value for name, value in written[noun].items() if name != "split"}
    with pytest.raises(InputError, match=f"{noun} 1: lacks the column 'split'"):
        KINDS[noun].checked([record], Path("x.csv"))


@pytest.mark.parametrize(
    ("noun", "change", "message"),
    [
        ("record", {"map": "affine"}, "map: got 'affine', expected one of mean, identity"),
        ("record", {"error": -1.0}, "error: got -1.0, expected no negative number"),
        ("measure", {"better": "↓"}, "better: got '↓', expected one of ↑"),
        ("measure", {"measure": "cca9"}, "cca9"),
    ],
)
def test_what_one_kind_never_holds_is_refused(written, noun, change, message) -> None:
    with pytest.raises(InputError, match=message):
        KINDS[noun].checked([written[noun] | change], Path("x.csv"))


def test_every_column_that_is_written_has_a_type() -> None:
    assert set(MAP_RECORDS.types) == set(COLUMNS)
