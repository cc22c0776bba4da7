import csv
import io
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repalign.exceptions import InputError
from repalign.workflows.tables.seals import (
    NO_DIGEST,
    ROW_DIGEST,
    sealed_records,
    unsealed_records,
)

ROWS: list[dict[str, Any]] = [
    {"map": "rigid", "n": 120, "error": 0.12345678901234567, "p": None, "converged": True},
    {"map": "ica", "n": 1234567, "error": -1e-9, "p": 0.01, "converged": False},
    {"map": "mean", "n": 2**40 + 1, "error": 3.0, "p": math.nan, "converged": None},
]
KNOWN = set(ROWS[0])


def sealed() -> list[dict[str, Any]]:
    return [dict(row) for row in sealed_records(ROWS)]


def notes(rows: list[dict[str, Any]]) -> tuple[str, ...]:
    return unsealed_records(rows, KNOWN)[1]


def test_what_was_written_is_known_and_comes_without_its_digests() -> None:
    assert unsealed_records(sealed(), KNOWN) == (ROWS, ())
    assert [list(row)[-1] for row in sealed()] == [ROW_DIGEST] * 3


@pytest.mark.parametrize("name", sorted(KNOWN))
@pytest.mark.parametrize("value", [None, 0.5, 7, "x", True])
def test_a_changed_cell_is_refused_with_its_row(name: str, value: Any) -> None:
    rows = sealed()
    rows[1][name] = value
    with pytest.raises(InputError, match="row 2 was changed after it was written"):
        notes(rows)


def test_other_spellings_of_the_same_are_no_change() -> None:
    rows = sealed()
    rows[0] = dict(reversed(rows[0].items())) | {"n": 120.0, "p": ""}
    rows[2] |= {"error": 3, "n": float(2**40 + 1), "p": None}
    del rows[2]["converged"]  # there was nothing in it
    assert notes(rows) == ()


def test_rows_may_be_sorted_and_put_together_with_others() -> None:
    more = [dict(row) for row in sealed_records([row | {"map": "linear"} for row in ROWS])]
    assert notes([*reversed(sealed()), *more]) == ()


def test_a_column_may_be_added_and_is_left_out() -> None:
    rows = [row | {"mine": number} for number, row in enumerate(sealed())]
    assert unsealed_records(rows, KNOWN) == (ROWS, ())


def test_columns_of_another_version_are_known_to_their_digest() -> None:
    assert unsealed_records(sealed(), KNOWN - {"error"}) == (ROWS, ())


def test_missing_rows_are_counted() -> None:
    assert notes(sealed()[1:]) == ("holds 2 of 3 rows that were written together",)
    alone = [dict(row) for row in sealed_records(ROWS[:1])]
    assert notes([*sealed()[1:], *alone]) == ("holds 2 of 3 rows that were written together",)
    assert notes([*sealed(), sealed()[0]]) == ("holds 4 of 3 rows that were written together",)


def test_numbers_that_lost_their_last_digits_are_told() -> None:
    rows = sealed()
    rows[0]["error"] = 0.1234567890
    told = (
        "1 of 3 rows were rounded after they were written: their numbers are the same to 6 digits"
    )
    assert notes(rows) == (told,)
    rows[0]["error"] = 0.12346
    with pytest.raises(InputError, match="row 1 was changed"):
        notes(rows)


def test_rows_without_a_digest_are_told() -> None:
    assert notes(ROWS) == (NO_DIGEST,)
    rows = sealed()
    rows[1] |= {ROW_DIGEST: None, "error": 7.0}
    told = notes(rows)
    assert told[0] == "1 of 3 rows carry no digest: nobody can tell whether they were changed"
    assert told[1] == "holds 2 of 3 rows that were written together"


@pytest.mark.parametrize("digest", ["x", 7, True, "0" * 12, "0-0-0-3"])
def test_what_is_no_digest_is_refused(digest: Any) -> None:
    rows = sealed()
    rows[0][ROW_DIGEST] = digest
    with pytest.raises(InputError, match="row 1 was changed"):
        notes(rows)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_is_known_after_it_was_written_and_read(value: float) -> None:
    (row,) = sealed_records([{"error": value}])
    text = next(csv.reader(io.StringIO(repr(value))))[0]
    assert unsealed_records([dict(row) | {"error": float(text)}], {"error"})[1] == ()
