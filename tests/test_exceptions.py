"""What every message of ours keeps to."""

import pickle

import pytest

from repalign.exceptions import (
    GateError,
    MissingExtraError,
    ModelError,
    RepalignError,
    first_line,
)


@pytest.mark.parametrize("kind", [RepalignError, ModelError, GateError])
def test_a_message_is_one_line_in_which_nothing_acts(kind: type[RepalignError]) -> None:
    error = kind("config says \x1b]0;owned\x07\x1b[2J\u202e\udcff\n% x,\r\nexpected a number")
    assert str(error) == (r"config says \x1b]0;owned\x07\x1b[2J\u202e\udcff % x, expected a number")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_of_a_message_that_fills_the_screen_the_middle_is_left_out() -> None:
    told = str(RepalignError("a.h5: " + "x" * 10**6 + ": expected less"))
    assert len(told) < 2100
    assert told.startswith("a.h5: xx")
    assert told.endswith("x: expected less")


def test_what_is_no_text_is_told_as_text() -> None:
    assert str(RepalignError(3)) == "3"
    assert "pip install a" in str(MissingExtraError("a", extra="x", purpose="b"))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("one\ntwo", "one"),
        ("\n wrong field 'a':\n    expected a number\nmore", "wrong field 'a': expected a number"),
        ("", "ValueError"),
        ("\n", "ValueError"),
        ("x" * 500, "x" * 200),
    ],
)
def test_of_a_librarys_message_the_line_that_says_something_is_told(text: str, told: str) -> None:
    assert first_line(ValueError(text)) == told
