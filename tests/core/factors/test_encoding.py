import numpy as np
import pytest

from repalign.core.factors.encoding import encode_factors, guess_kind
from repalign.exceptions import InputError


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (np.array(["a", "b", "a", "c"]), "discrete"),
        (np.array([True, False, True, True]), "discrete"),
        (np.arange(400) % 40 * 0.157, "discrete"),
        (np.arange(400) % 3, "discrete"),
        (np.arange(400), "continuous"),
        (np.linspace(0, 1, 50), "continuous"),
        (np.array([0.5, 1.5]), "discrete"),
    ],
)
def test_kind_is_told_by_inspection(column: np.ndarray, kind: str) -> None:
    assert guess_kind(column) == kind


def test_names_codes_and_values_follow_the_columns() -> None:
    factors = encode_factors(
        {"shape": np.array(["square", "heart", "heart"]), "x": np.array([7, 7, 2])}
    )
    assert factors.names == ("shape", "x")
    assert factors.codes.tolist() == [[1, 1], [0, 1], [0, 0]]
    assert factors.values.tolist() == [[1, 7], [0, 7], [0, 2]]
    assert factors.is_discrete == (True, True)


def test_a_continuous_factor_is_binned_with_equal_frequency() -> None:
    values = np.random.default_rng(0).exponential(size=400)
    factors = encode_factors({"size": values}, n_bins=8)
    assert np.bincount(factors.codes[:, 0]).tolist() == [50] * 8
    assert factors.values[:, 0].tolist() == values.tolist()


def test_the_guess_can_be_overridden() -> None:
    column = np.arange(400) % 30
    factors = encode_factors({"angle": column}, kinds={"angle": "continuous"}, n_bins=5)
    assert factors.is_discrete == (False,)
    assert np.unique(factors.codes).size == 5


def test_columns_that_carry_nothing_are_left_out_with_a_note() -> None:
    factors = encode_factors(
        {
            "good": np.arange(10) % 2,
            "flat": np.ones(10),
            "serial": np.array([f"row {i}" for i in range(10)]),
        }
    )
    assert factors.names == ("good",)
    flat, serial = factors.notes
    assert "flat" in flat
    assert "serial" in serial
    assert "continuous" in serial


def test_taking_rows_renumbers_the_classes() -> None:
    factors = encode_factors({"a": np.array([0, 1, 2, 2, 0])})
    assert factors.take(np.array([2, 3, 4])).codes[:, 0].tolist() == [1, 1, 0]


@pytest.mark.parametrize(
    ("columns", "kinds", "message"),
    [
        ({"a": np.ones(3)}, {}, "constant"),
        ({}, {}, "no column"),
        ({"a": np.arange(3)}, {"b": "discrete"}, r"\bb\b.*\ba\b"),
        ({"a": np.arange(3)}, {"a": "nominal"}, "nominal"),
        ({"a": np.array(["x", "y"])}, {"a": "continuous"}, "numbers"),
        ({"a": np.array([1.0, np.nan])}, {}, "missing"),
        ({"a": np.ones((3, 2))}, {}, r"\(3, 2\)"),
    ],
)
def test_unusable_columns_are_refused(columns, kinds, message: str) -> None:
    with pytest.raises(InputError, match=message):
        encode_factors(columns, kinds=kinds)


def test_fewer_than_two_bins_are_refused() -> None:
    with pytest.raises(InputError, match=r"n_bins.* 1"):
        encode_factors({"a": np.linspace(0, 1, 300)}, n_bins=1)


def test_dealt_factors_are_binned_as_if_they_had_been_so_from_the_start() -> None:
    """Most rows of the first half: their values, in one bin before, fill half of the bins."""
    values = np.concatenate([np.linspace(0, 1, 50), np.linspace(10, 11, 50)])
    factors = encode_factors({"x": values, "k": np.arange(100) % 3}, n_bins=4)
    rows = np.r_[np.arange(50), np.arange(50)]
    assert np.unique(factors.take(rows).codes[:, 0]).size == 2
    assert np.unique(factors.deal(rows).codes[:, 0]).size == 4
    shuffled = np.random.default_rng(0).permutation(100)
    assert factors.deal(shuffled).codes.tolist() == factors.codes[shuffled].tolist()
