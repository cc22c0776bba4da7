import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.feature_selection import mutual_info_classif
from sklearn.metrics import mutual_info_score

from repalign.core.factors.mutual_info import (
    encode_classes,
    entropy,
    equal_width_bins,
    neighbour_mi_matrix,
    plug_in_mi,
    plug_in_mi_matrix,
)
from repalign.exceptions import InputError


def test_entropy_of_a_fair_coin_is_ln_2() -> None:
    assert entropy(np.array([0, 1, 0, 1])) == pytest.approx(np.log(2), abs=1e-15)


def test_classes_are_numbered_in_the_order_of_their_values() -> None:
    assert encode_classes(np.array(["b", "a", "c", "a"])).tolist() == [1, 0, 2, 0]


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=60))
def test_plug_in_mi_is_symmetric_bounded_and_equal_to_scikit_learns(pairs) -> None:
    first, second = (encode_classes(np.array(column)) for column in zip(*pairs, strict=True))

    mi = plug_in_mi(first, second)

    assert_allclose(mi, plug_in_mi(second, first), atol=1e-12)
    assert_allclose(mi, max(0.0, mutual_info_score(first, second)), atol=1e-12)
    assert -1e-12 <= mi <= min(entropy(first), entropy(second)) + 1e-12
    assert_allclose(plug_in_mi(first, first), entropy(first), atol=1e-12)


@pytest.mark.parametrize("name", ["identity", "rotated", "inactive", "noise"])
def test_neighbour_mi_agrees_with_the_reference(name: str, case, oracles) -> None:
    factors, latents = case(name)

    mi = neighbour_mi_matrix(factors.codes, latents, n_neighbors=10, rng=np.random.default_rng(0))

    entropies = np.array([entropy(column) for column in factors.codes.T])
    assert_allclose(mi / entropies[:, None], oracles[name]["nmi"], atol=2e-6)


def test_neighbour_mi_of_tied_latents_agrees_up_to_the_jitter(case, oracles) -> None:
    factors, latents = case("exact_identity")

    mi = neighbour_mi_matrix(factors.codes, latents, n_neighbors=10, rng=np.random.default_rng(0))

    entropies = np.array([entropy(column) for column in factors.codes.T])
    # 0.02 is the spread of the reference itself over the seeds of its jitter.
    assert_allclose(mi / entropies[:, None], oracles["exact_identity"]["nmi"], atol=0.02)


@pytest.mark.parametrize("n_neighbors", [1, 3, 10])
def test_neighbour_mi_agrees_with_scikit_learn(n_neighbors: int) -> None:
    rng = np.random.default_rng(5)
    codes = np.column_stack([rng.integers(0, 2, 900), rng.integers(0, 12, 900)])
    latents = np.column_stack([rng.laplace(size=900) + codes[:, 0], 100 + rng.normal(size=900)])

    ours = neighbour_mi_matrix(codes, latents, n_neighbors=n_neighbors, rng=rng)

    theirs = [
        mutual_info_classif(latents, column, n_neighbors=n_neighbors, random_state=0)
        for column in codes.T
    ]
    # One point counted on the other side of a radius moves the mean by 1 / (900 · k).
    assert_allclose(ours, theirs, atol=2e-3 / n_neighbors)


def test_points_alone_in_their_class_are_left_out() -> None:
    rng = np.random.default_rng(0)
    codes = np.repeat([0, 1], 50)
    values = rng.normal(size=100) + codes
    alone = np.concatenate([codes, [2, 3]])[:, None]

    extended = neighbour_mi_matrix(
        alone, np.append(values, [9.0, -9.0])[:, None], n_neighbors=3, rng=rng
    )

    plain = neighbour_mi_matrix(codes[:, None], values[:, None], n_neighbors=3, rng=rng)
    assert_allclose(extended, plain, atol=1e-6)


def test_a_factor_with_as_many_values_as_rows_and_a_constant_latent_have_no_information() -> None:
    rng = np.random.default_rng(0)
    codes = np.column_stack([np.arange(40), np.repeat([0, 1], 20)])
    latents = np.column_stack([np.arange(40.0), np.full(40, 1e9)])

    mi = neighbour_mi_matrix(codes, latents, n_neighbors=3, rng=rng)

    assert mi[0].tolist() == [0.0, 0.0]
    assert mi[1, 1] == 0.0
    assert mi[1, 0] > 0.5


def test_neighbour_mi_depends_on_the_seed_only_through_the_jitter(case) -> None:
    factors, latents = case("rotated")
    first, second = (
        neighbour_mi_matrix(factors.codes, latents, n_neighbors=3, rng=np.random.default_rng(s))
        for s in (1, 2)
    )
    assert_allclose(first, second, atol=1e-5)


def test_neighbour_mi_refuses_no_neighbours() -> None:
    with pytest.raises(InputError, match=r"n_neighbors.* 0"):
        neighbour_mi_matrix(
            np.zeros((3, 1), dtype=np.int64),
            np.zeros((3, 1)),
            n_neighbors=0,
            rng=np.random.default_rng(0),
        )


def test_bins_have_equal_width() -> None:
    latents = np.array([[0.0], [0.9], [1.1], [2.0], [10.0]])
    assert equal_width_bins(latents, 10).reshape(-1).tolist() == [0, 0, 1, 2, 9]


def test_plug_in_matrix_has_factors_in_rows() -> None:
    codes = np.column_stack([[0, 0, 1, 1], [0, 1, 0, 1]])
    mi = plug_in_mi_matrix(codes, codes[:, :1])
    assert_allclose(mi, [[np.log(2)], [0.0]], atol=1e-12)
