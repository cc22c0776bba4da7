import numpy as np
import pytest

from repalign.core.checks import check_matrix, check_not_vanishing, check_paired
from repalign.core.rows import ArrayRows
from repalign.exceptions import InputError


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_floating_matrices_are_returned_as_they_are(dtype: type) -> None:
    values = np.ones((3, 2), dtype=dtype)
    assert check_matrix(values) is values


@pytest.mark.parametrize("values", [[[1, 2], [3, 4]], np.array([[True, False]])])
def test_integers_become_double_precision(values: object) -> None:
    assert check_matrix(values).dtype == np.float64


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.ones(3), r"x has shape \(3,\); expected two dimensions"),
        (np.ones((0, 3)), r"x has shape \(0, 3\); expected at least one row and column"),
        (np.ones((3, 0)), r"x has shape \(3, 0\); expected at least one row and column"),
        (np.ones((2, 2), dtype=complex), "x has type complex128; expected real numbers"),
        (np.array([["a"]]), "x has type <U1; expected real numbers"),
        ([[1.0], [np.nan]], "x has nan at row 1, column 0; expected finite numbers"),
        (np.array([[0.0, -np.inf]]), "x has -inf at row 0, column 1"),
        (np.full((2, 2), np.float16(np.inf)), "x has inf at row 0, column 0"),
        (np.array([[1.0, 1e101]]), r"x has 1e\+101 at row 0, column 1"),
    ],
)
def test_other_matrices_are_refused(values: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_matrix(values, name="x")


def test_paired_rows_have_one_number() -> None:
    assert check_paired(ArrayRows(np.ones((4, 2))), ArrayRows(np.ones((4, 3)))) == 4


def test_rows_without_columns_do_not_pair() -> None:
    with pytest.raises(InputError, match=r"the target has shape \(4, 0\)"):
        check_paired(ArrayRows(np.ones((4, 2))), ArrayRows(np.ones((4, 0))))


@pytest.mark.parametrize("values", [[[2e25, 0]], [[-1e99, 1]]])
def test_values_whose_powers_overflow_are_refused(values: object) -> None:
    with pytest.raises(InputError, match=r"row 0, column 0; expected finite numbers of at most 1e"):
        check_matrix(values)


def test_values_whose_powers_vanish_are_refused_but_not_zeros() -> None:
    check_not_vanishing(0.0)
    check_not_vanishing(1e-25)
    with pytest.raises(InputError, match="x has no value beyond 1e-26; expected one of at least"):
        check_not_vanishing(1e-26, name="x")
