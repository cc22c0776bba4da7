import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from repalign.core.resampling.intervals import ANYWHERE, POSITIVE, SIGNED, UNIT, Range

RANGES = (UNIT, SIGNED, POSITIVE, Range(high=1.0), Range(0.0, math.pi))


@pytest.mark.parametrize("within", RANGES)
def test_no_end_is_outside_and_the_value_is_between(within: Range) -> None:
    low, high = max(within.low, -5.0), min(within.high, 5.0)
    for value in [low, low + 1e-12, *np.linspace(low, high, 9)[1:-1], high - 1e-12, high]:
        for half in (0.0, 1e-9, 0.1, 3.0, 1e6):
            ends = within.around(float(value), half)
            assert within.low <= ends[0] <= value + 1e-15
            assert value - 1e-15 <= ends[1] <= within.high


@pytest.mark.parametrize("within", RANGES)
def test_a_narrow_interval_is_what_it_would_be_without_ends(within: Range) -> None:
    assert_allclose(within.around(0.5, 1e-6), ANYWHERE.around(0.5, 1e-6), atol=1e-11)


def test_it_is_symmetric_where_there_are_no_ends() -> None:
    assert ANYWHERE.around(0.5, 2.0) == (-1.5, 2.5)
    ends = SIGNED.around(0.9, 0.2)
    z, half = np.arctanh(ends), 0.2 / (1 - 0.9**2)
    assert_allclose(z, np.arctanh(0.9) + np.array([-half, half]))
    assert_allclose(POSITIVE.around(0.5, 0.4), 0.5 * np.exp([-0.8, 0.8]))
    assert_allclose(Range(high=1.0).around(0.5, 0.4), 1 - 0.5 * np.exp([0.8, -0.8]))


def test_on_an_end_what_is_outside_is_cut_off() -> None:
    assert UNIT.around(0.0, 0.1) == (0.0, 0.1)
    assert UNIT.around(1.0, 0.1) == (0.9, 1.0)
    assert POSITIVE.around(0.0, 0.0) == (0.0, 0.0)
