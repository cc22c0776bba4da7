from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from repalign.core.resampling.permutations import COUNTED, Arrangements, arrange


def whole_groups(sizes: list[int], **options: object) -> Arrangements:
    groups = np.repeat(np.arange(len(sizes)), sizes)
    return arrange(groups, blocks=np.zeros(groups.size, dtype=int), **options)


def every_order(arrangements: Arrangements) -> list[np.ndarray]:
    return list(arrangements.shuffles(10_000, np.random.default_rng(0)))


def test_single_rows_are_shuffled_freely() -> None:
    found = arrange(np.arange(4), blocks=np.zeros(4, dtype=int))
    orders = {tuple(order) for order in every_order(found)}
    assert found.count == 24
    assert len(orders) == 23
    assert (0, 1, 2, 3) not in orders


def test_groups_of_one_size_change_places_as_they_are() -> None:
    found = whole_groups([3] * 5)
    assert found.count == 120
    assert found.kept.size == found.n_rows
    for order in every_order(found):
        assert (order.reshape(5, 3) % 3 == [0, 1, 2]).all()
        assert (np.diff(order.reshape(5, 3), axis=1) == 1).all()


def test_rows_never_leave_their_block() -> None:
    groups = np.repeat(np.arange(8), 2)
    blocks = np.repeat([0, 1], 8)
    found = arrange(groups, blocks=blocks)
    assert found.count == 24 * 24
    for order in found.shuffles(30, np.random.default_rng(1)):
        assert (blocks[order] == blocks).all()


def test_rows_shuffled_inside_their_groups_stay_there() -> None:
    groups = np.repeat([0, 1, 2], [5, 4, 1])
    found = arrange(np.arange(10), blocks=groups)
    assert found.count == 120 * 24
    assert found.n_moving == 9
    for order in found.shuffles(20, np.random.default_rng(1)):
        assert (groups[order] == groups).all()


def best_by_search(sizes: list[int]) -> int:
    falling = sorted(sizes, reverse=True)
    places = range(1, len(falling))
    best = 0
    for n_cuts in range(len(falling)):
        for cuts in combinations(places, n_cuts):
            edges = (0, *cuts, len(falling))
            runs = [falling[a:b] for a, b in pairwise(edges)]
            best = max(best, sum((len(run) - 1) * min(run) for run in runs))
    return best


@given(st.lists(st.integers(1, 12), min_size=1, max_size=9))
def test_runs_move_as_many_rows_as_any_cut_could(sizes: list[int]) -> None:
    found = whole_groups(sizes)
    assert sum((len(run) - 1) * run.shape[1] for run in found.runs) == best_by_search(sizes)
    assert sum(len(run) for run in found.runs) == len(sizes)


@given(st.lists(st.integers(1, 12), min_size=1, max_size=9), st.booleans(), st.integers(0, 3))
def test_kept_rows_stay_kept_and_groups_stay_whole(
    sizes: list[int], is_ordered: bool, seed: int
) -> None:
    groups = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))
    found = arrange(groups, blocks=np.zeros(groups.size, dtype=int), is_ordered=is_ordered)
    assert np.unique(found.kept).size == found.kept.size
    for order in found.shuffles(5, np.random.default_rng(seed)):
        assert sorted(order) == list(range(found.kept.size))
        sent = {(a, b) for a, b in zip(groups[found.kept], groups[found.kept[order]], strict=True)}
        # every group goes to one other
        assert len(sent) == len(sizes)


def test_of_longer_groups_the_first_rows_are_kept_where_rows_are_ordered() -> None:
    first = whole_groups([6, 5, 5, 5])
    assert first.kept.tolist() == [0, 1, 2, 3, 4, *range(6, 21)]
    anywhere = [whole_groups([6, 5, 5, 5], is_ordered=False, seed=seed).kept for seed in range(9)]
    assert {kept.size for kept in anywhere} == {20}
    assert len({tuple(kept) for kept in anywhere}) > 1


def test_few_arrangements_are_enumerated_and_many_drawn_without_repeats() -> None:
    few = whole_groups([2, 2, 2])
    assert few.n_shuffles(99) == 5
    assert few.smallest_p(99) == pytest.approx(1 / 6)
    assert not few.is_sufficient
    many = whole_groups([2] * 5)
    drawn = [tuple(order) for order in many.shuffles(100, np.random.default_rng(0))]
    assert len(set(drawn)) == len(drawn) == 100
    assert tuple(range(10)) not in drawn
    assert many.smallest_p(99) == 0.01
    assert many.is_sufficient


def test_the_count_ends_where_it_no_longer_matters() -> None:
    assert arrange(np.arange(500), blocks=np.zeros(500, dtype=int)).count == COUNTED


def test_one_group_cannot_be_shuffled() -> None:
    found = whole_groups([7])
    assert found.count == 1
    assert found.n_moving == 0
    assert every_order(found) == []
    assert found.smallest_p(99) == 1
