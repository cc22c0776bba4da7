import numpy as np
import pytest

from repalign.core.rows import ArrayRows, check_finite_block, check_not_vanishing, check_paired
from repalign.exceptions import InputError


def test_blocks_return_their_largest_magnitude() -> None:
    assert check_finite_block(np.array([[1.0, -3.0]]), first_row=0) == 3
    assert check_finite_block(np.ones((0, 2)), first_row=0) == 0


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.array([[1.0], [np.nan]]), r"\bx\b.* nan.* 8.* 0"),
        (np.array([[0.0, -np.inf]]), r"\bx\b.* -inf.* 7.* 1"),
        (np.full((2, 2), np.float16(np.inf)), r"\bx\b.* inf.* 7.* 0"),
        (np.array([[1.0, 1e101]]), r"\bx\b.* 1e\+101.* 7.* 1"),
        (np.array([[2e25, 0]]), r"2e\+25.* 7.* 0.* 1e\+25"),
        (np.array([[-1e99, 1]]), r"-1e\+99.* 7.* 0.* 1e\+25"),
    ],
)
def test_the_first_value_that_cannot_be_used_is_named(values: np.ndarray, message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_finite_block(values, first_row=7, name="x")


def test_paired_rows_have_one_number() -> None:
    assert check_paired(ArrayRows(np.ones((4, 2))), ArrayRows(np.ones((4, 3)))) == 4


def test_rows_without_columns_do_not_pair() -> None:
    with pytest.raises(InputError, match=r"target.* \(4, 0\)"):
        check_paired(ArrayRows(np.ones((4, 2))), ArrayRows(np.ones((4, 0))))


def test_values_whose_powers_vanish_are_refused_but_not_zeros() -> None:
    check_not_vanishing(0.0)
    check_not_vanishing(1e-25)
    with pytest.raises(InputError, match=r"\bx\b.* 1e-26"):
        check_not_vanishing(1e-26, name="x")
