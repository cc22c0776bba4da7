import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from repalign.core.batches.sparsity import (
    concentration,
    hoyer_sparsity,
    mean_and_sd,
    top_features,
)
from repalign.exceptions import InputError


@pytest.mark.parametrize(
    ("counts", "value"),
    [
        ([1, 1, 1, 1], 0.0),
        ([5, 0, 0, 0], 1.0),
        ([4, 3, 2, 1], 0.174258),
        ([10, 1, 1, 0, 0, 0, 0, 0], 0.897083),
        (list(range(1, 17)), 0.161268),
    ],
)
def test_hoyer_agrees_with_the_values_derived_by_hand(counts: list[int], value: float) -> None:
    assert hoyer_sparsity(counts).value == pytest.approx(value, abs=1e-6)


@given(
    st.lists(st.integers(0, 50), min_size=2, max_size=20).filter(any),
    st.integers(1, 9),
    st.randoms(),
)
def test_hoyer_is_between_0_and_1_and_blind_to_scale_and_order(counts, factor, random) -> None:
    shuffled = [factor * count for count in random.sample(counts, len(counts))]
    value = hoyer_sparsity(counts).value
    assert -1e-12 <= value <= 1 + 1e-12
    assert hoyer_sparsity(shuffled).value == pytest.approx(value, abs=1e-12)


def test_hoyer_without_splits_or_with_one_feature_is_undefined() -> None:
    assert "no feature" in hoyer_sparsity([0, 0, 0]).reason
    assert "two features" in hoyer_sparsity([3]).reason


@pytest.mark.parametrize("weights", [[-1.0, 2.0], [[1.0, 2.0]]])
def test_hoyer_refuses_what_is_no_vector_of_weights(weights) -> None:
    with pytest.raises(InputError, match="weights"):
        hoyer_sparsity(weights)


def test_features_are_split_by_importance_and_ties_go_to_the_earlier() -> None:
    top, rest = top_features(np.array([1.0, 5.0, 1.0, 3.0]), 0.75)
    assert top.tolist() == [0, 1, 3]
    assert rest.tolist() == [2]


def test_both_sides_of_the_split_keep_a_feature() -> None:
    assert [side.size for side in top_features(np.arange(4.0), 0.01)] == [1, 3]
    assert [side.size for side in top_features(np.arange(4.0), 0.99)] == [3, 1]


def test_impossible_feature_splits_are_refused() -> None:
    with pytest.raises(InputError, match=r"1\.5"):
        top_features(np.arange(4.0), 1.5)
    with pytest.raises(InputError, match="1 feature"):
        top_features(np.arange(1.0), 0.5)


def test_the_three_readings_of_concentration() -> None:
    values = [score.value for score in concentration(0.9, 0.6)]
    assert values == pytest.approx([0.3, 0.5, 0.75])


def test_readings_that_divide_by_nothing_have_a_reason() -> None:
    assert "0.400" in concentration(0.4, 0.3)[2].reason
    assert "every pair" in concentration(0.4, 0.0)[1].reason


def test_the_deviation_is_that_of_a_sample() -> None:
    assert mean_and_sd([0.6, 0.8]) == pytest.approx((0.7, 0.02**0.5))
    assert mean_and_sd([0.6]) == (0.6, None)
    assert mean_and_sd([]) == (None, None)
