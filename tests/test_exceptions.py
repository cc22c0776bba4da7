"""What every message of ours keeps to."""

import pickle

import pytest

from repalign.exceptions import GateError, MissingExtraError, ModelError, RepalignError


@pytest.mark.parametrize("kind", [RepalignError, ModelError, GateError])
def test_a_message_is_one_line_in_which_nothing_acts(kind: type[RepalignError]) -> None:
    error = kind("config says \x1b]0;owned\x07\x1b[2J\u202e\udcff\n% x,\r\nexpected a number")
    assert str(error) == (r"config says \x1b]0;owned\x07\x1b[2J\u202e\udcff % x, expected a number")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_what_is_no_text_is_told_as_text() -> None:
    assert str(RepalignError(3)) == "3"
    assert "pip install 'repalign[x]'" in str(MissingExtraError("a", extra="x", purpose="b"))
