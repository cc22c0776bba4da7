import pytest

from repalign.core.score import undefined
from repalign.exceptions import InputError


def test_an_undefined_score_has_a_reason_and_no_value() -> None:
    score = undefined("InfoM", "one factor")
    assert score.value is None
    assert score.reason == "one factor"


def test_a_score_without_value_needs_a_reason() -> None:
    with pytest.raises(InputError, match="InfoM"):
        undefined("InfoM", "")
