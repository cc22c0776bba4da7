"""Rows in memory against plain scipy and scikit-learn, shuffled and with rows left out."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import pdist
from scipy.stats import pearsonr, rankdata, spearmanr
from sklearn.neighbors import NearestNeighbors

from repalign.core import neighbours
from repalign.core.measures import matched_correlation
from repalign.core.neighbours import MEMO, HeldRows, hold

# Blocks of the fewest rows, so that there are several.
SMALL_MEMORY = 200_000


def pair(n: int = 130) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    x = rng.laplace(size=(n, 4)) + 30
    return x, np.tanh(x @ rng.standard_normal((4, 6))) + 0.3 * rng.standard_normal((n, 6))


def shared_neighbours(x: np.ndarray, y: np.ndarray, k: int) -> float:
    lists = [
        NearestNeighbors(n_neighbors=k, algorithm="brute")
        .fit(side)
        .kneighbors(return_distance=False)
        for side in (x, y)
    ]
    return float(
        np.mean([len(set(a) & set(b)) / k for a, b in zip(*lists, strict=True)]),
    )


PEERS = {
    "neighbours": (
        lambda rows: rows.mutual_neighbours(7),
        lambda x, y: shared_neighbours(x, y, 7),
    ),
    "pearson": (
        lambda rows: rows.distance_correlation("pearson"),
        lambda x, y: pearsonr(pdist(x), pdist(y)).statistic,
    ),
    "spearman": (
        lambda rows: rows.distance_correlation("spearman"),
        lambda x, y: spearmanr(pdist(x), pdist(y)).statistic,
    ),
    "ranks": (
        lambda rows: matched_correlation(rows.rank_moments()),
        lambda x, y: matched_ranks(x, y),
    ),
}


def matched_ranks(x: np.ndarray, y: np.ndarray) -> float:
    from scipy.optimize import linear_sum_assignment

    table = np.abs(spearmanr(x, y).statistic[: x.shape[1], x.shape[1] :])
    rows, columns = linear_sum_assignment(-table)
    return float(table[rows, columns].mean())


@pytest.fixture(scope="module")
def held() -> HeldRows:
    return hold(*pair(), memory_bytes=SMALL_MEMORY)


@pytest.mark.parametrize("name", PEERS)
def test_of_the_rows_as_they_are(held: HeldRows, name: str) -> None:
    of_rows, peer = PEERS[name]
    assert_allclose(of_rows(held), peer(*pair()), rtol=1e-10)


@pytest.mark.parametrize("name", PEERS)
def test_of_shuffled_pairs(held: HeldRows, name: str) -> None:
    x, y = pair()
    order = np.random.default_rng(1).permutation(len(x))
    of_rows, peer = PEERS[name]
    assert_allclose(of_rows(held.with_target_in(order)), peer(x, y[order]), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", PEERS)
def test_without_some_of_the_rows(held: HeldRows, name: str) -> None:
    x, y = pair()
    bundle = np.random.default_rng(2).integers(0, 4, len(x))
    of_rows, peer = PEERS[name]
    for number in range(4):
        stays = bundle != number
        found = of_rows(held.chosen(np.flatnonzero(stays)))
        assert_allclose(found, peer(x[stays], y[stays]), rtol=1e-9)


def test_ties_of_distances_share_their_rank() -> None:
    x = np.array([[0.0], [1], [2], [3], [5], [5]])
    y = np.array([[0.0], [2], [1], [3], [3], [4]])
    expected = pearsonr(rankdata(pdist(x)), rankdata(pdist(y))).statistic
    assert_allclose(hold(x, y).distance_correlation("spearman"), expected, rtol=1e-12)
    shuffled = hold(x, y).with_target_in(np.arange(6))
    assert_allclose(shuffled.distance_correlation("spearman"), expected, rtol=1e-12)


def test_distances_that_differ_by_rounding_are_ties() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 3, (40, 4)) / 7, rng.integers(0, 3, (40, 3)) * 0.1
    # squared distances of whole numbers are exact
    exact = [rankdata(pdist(np.round(7 * x)) ** 2), rankdata(pdist(np.round(10 * y)) ** 2)]
    expected = pearsonr(*exact).statistic
    assert_allclose(hold(x, y).distance_correlation("spearman"), expected, rtol=1e-12)


def test_memory_changes_no_neighbour() -> None:
    x, y = pair()
    lists = [hold(x, y, memory_bytes=cap).source.nearest(9) for cap in (SMALL_MEMORY, 2**30)]
    assert_array_equal(*lists)


def test_rows_whose_neighbours_are_remembered_are_not_even_centred() -> None:
    x, y = (side.astype(np.float32) for side in pair())
    first = hold(x, y).mutual_neighbours(6)
    MEMO.clear()
    rows = hold(x, y)
    assert rows.mutual_neighbours(6) == first
    again = hold(x.copy(), y.copy())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neighbours, "centred", None)
        assert again.mutual_neighbours(6) == first
    assert "values" not in vars(again.source)
    assert_allclose(
        again.source.values, x.astype(np.float64) - x.astype(np.float64).mean(0), atol=1e-14
    )


def test_too_few_rows_define_nothing() -> None:
    x, y = pair(5)
    assert np.isnan(hold(x, y).mutual_neighbours(5))
    assert np.isnan(hold(x[:2], y[:2]).distance_correlation("pearson"))
