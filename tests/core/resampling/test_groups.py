import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from repalign import InputError
from repalign.core.resampling.groups import (
    FEWEST_IN_PART,
    FEWEST_SAMPLED,
    bundle_groups,
    fold_split,
    halving,
    held_out_split,
    no_split,
    sample_groups,
)


@given(st.integers(2, 200), st.integers(2, 10), st.integers(0, 5))
def test_folds_partition_the_rows(n_rows: int, n_folds: int, seed: int) -> None:
    n_folds = min(n_folds, n_rows)
    split = fold_split(np.arange(n_rows), n_folds, seed)
    judged = np.concatenate([split.judged_rows(part) for part in split.judged])
    assert sorted(judged.tolist()) == list(range(n_rows))
    sizes = [split.judged_rows(part).size for part in split.judged]
    assert max(sizes) - min(sizes) <= 1
    for part in split.judged:
        both = np.concatenate([split.judged_rows(part), split.fitting_rows(part)])
        assert sorted(both.tolist()) == list(range(n_rows))


@given(st.lists(st.integers(0, 9), min_size=2, max_size=60), st.floats(0.05, 0.95))
def test_a_group_never_stands_on_both_sides(labels: list[int], share: float) -> None:
    groups = np.array(labels)
    if np.unique(groups).size < 2:
        with pytest.raises(InputError, match=r"groups.* 1"):
            held_out_split(groups, share, seed=0)
        return
    split = held_out_split(groups, share, seed=0)
    judged = set(groups[split.judged_rows(1)])
    fitting = set(groups[split.fitting_rows(1)])
    assert judged
    assert fitting
    assert not judged & fitting


def test_the_held_out_share_is_the_one_asked_for() -> None:
    split = held_out_split(np.arange(1000), 0.2, seed=3)
    assert split.judged_rows(1).size == 200


def test_the_same_seed_gives_the_same_split_and_another_seed_another() -> None:
    first, again, other = (held_out_split(np.arange(50), 0.3, seed) for seed in (1, 1, 2))
    assert np.array_equal(first.part_of_row, again.part_of_row)
    assert not np.array_equal(first.part_of_row, other.part_of_row)


def test_no_split_judges_nothing() -> None:
    assert no_split(5).judged == ()


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1])
def test_a_share_outside_the_unit_interval_is_refused(share: float) -> None:
    with pytest.raises(InputError, match=f"share.* {share}"):
        held_out_split(np.arange(5), share, seed=0)


def test_one_fold_is_refused_and_so_are_more_folds_than_groups() -> None:
    with pytest.raises(InputError, match=r"folds.* 1"):
        fold_split(np.arange(5), 1, seed=0)
    with pytest.raises(InputError, match=r"9 groups.* 5"):
        fold_split(np.arange(5), 9, seed=0)


def test_a_sample_takes_whole_groups_of_every_part() -> None:
    groups = np.repeat(np.arange(200), np.random.default_rng(0).integers(1, 12, 200))
    parts = held_out_split(groups, 0.2, seed=0).part_of_row
    chosen = sample_groups(groups, parts, 600, seed=1)
    assert 560 <= chosen.size <= 600
    taken = np.unique(groups[chosen])
    assert chosen.tolist() == np.flatnonzero(np.isin(groups, taken)).tolist()
    assert np.mean(parts[chosen]) == pytest.approx(np.mean(parts), abs=0.02)


@pytest.mark.parametrize("is_ordered", [True, False])
def test_a_sample_cuts_groups_before_it_loses_many(is_ordered: bool) -> None:
    groups = np.repeat(np.arange(12), 100)
    one_part = np.zeros(1200, dtype=int)
    chosen = sample_groups(groups, one_part, 250, is_ordered=is_ordered, seed=1)
    assert np.bincount(groups[chosen]).tolist() == [20] * 12
    assert np.array_equal(chosen % 100, np.tile(np.arange(20), 12)) == is_ordered


def test_small_inputs_are_not_sampled() -> None:
    groups = np.array([3, 1, 1, 2])
    assert sample_groups(groups, np.zeros(4, dtype=int), 4, seed=0).tolist() == [0, 1, 2, 3]


@given(st.lists(st.integers(0, 20), min_size=2, max_size=80), st.integers(1, 80))
@example([0, 0, 0, 0, 1, 2], 3)
@example([0] * 60 + [1, 4, 7, 10, 13, 2, 5, 8, 11, 14] * 2, 16)
def test_a_sample_keeps_to_its_size_and_to_every_part(labels: list[int], n_rows: int) -> None:
    groups = np.array(labels)
    parts = groups % 3
    chosen = sample_groups(groups, parts, n_rows, seed=0)
    assert np.unique(chosen).size == chosen.size
    for part in np.unique(parts):
        inside = parts == part
        # its share of the rows asked for, or one row of each of its share of thirty groups (at
        # least five), whichever are more: a small part may so exceed its share
        fair = n_rows * inside.sum() // groups.size
        few = max(FEWEST_SAMPLED * inside.sum() // groups.size, FEWEST_IN_PART)
        most = max(fair, min(few, np.unique(groups[inside]).size))
        assert 1 <= np.count_nonzero(parts[chosen] == part) <= most


@given(st.lists(st.integers(0, 12), min_size=2, max_size=80), st.integers(0, 5))
def test_halves_keep_groups_whole_and_differ_by_no_more_than_the_largest(
    labels: list[int], seed: int
) -> None:
    groups = np.array(labels)
    assume(np.unique(groups).size > 1)
    split = halving(groups, (seed, 1))
    assert split.judged == (0, 1)
    for label in np.unique(groups):
        assert np.unique(split.part_of_row[groups == label]).size == 1
    first, second = np.bincount(split.part_of_row, minlength=2)
    assert abs(first - second) <= np.bincount(groups).max()
    assert min(first, second) > 0


@pytest.mark.parametrize("sizes", [(1,) * 60, (3,) * 40, tuple(range(1, 31))])
def test_half_samples_have_half_of_the_groups_of_every_part(sizes: tuple[int, ...]) -> None:
    groups = np.repeat(np.arange(len(sizes)), sizes)
    split = held_out_split(groups, 0.3, 0)
    bundles = bundle_groups(groups, split, 20, 0)
    assert bundles is not None
    of_group = [set(bundles.split.part_of_row[groups == group]) for group in range(len(sizes))]
    assert all(len(numbers) == 1 for numbers in of_group)
    for bundle, part in enumerate(bundles.part_of_bundle):
        assert (split.part_of_row[bundles.split.part_of_row == bundle] == part).all()
    n_bundles = np.bincount(bundles.part_of_bundle)
    for sample in bundles.samples:
        counts = np.bincount([bundles.part_of_bundle[bundle] for bundle in sample])
        assert (np.abs(counts - n_bundles / 2) <= 0.5).all()
        first, second = bundles.disjoint_halves(sample, 1)
        assert not set(first) & set(second)
        assert {*first, *second} == set(sample) - set(bundles.inside(sample, 1))
    assert len(set(bundles.samples)) > 15


def test_bundles_have_about_as_many_rows() -> None:
    groups = np.repeat(np.arange(300), np.random.default_rng(0).integers(1, 20, 300))
    bundles = bundle_groups(groups, no_split(groups.size), 20, 0)
    assert bundles is not None
    sizes = np.bincount(bundles.split.part_of_row)
    assert sizes.max() - sizes.min() < 20


def test_a_part_of_one_group_has_no_half_samples() -> None:
    groups = np.repeat(np.arange(2), 30)
    assert bundle_groups(groups, held_out_split(groups, 0.5, 0), 20, 0) is None


def test_halves_of_a_split_share_no_group() -> None:
    groups = np.arange(300) // 3
    split = fold_split(groups, 5, 0).with_halves(groups, 0)
    assert split.half_of_row is not None
    for part in range(5):
        outside = split.part_of_row != part
        first, second = (
            set(groups[outside & (split.half_of_row == half)].tolist()) for half in (0, 1)
        )
        assert not first & second
        assert abs(len(first) - len(second)) <= 5


def test_another_halving_is_another_and_one_group_has_none() -> None:
    groups = np.arange(100)
    parts = [halving(groups, (0, number)).part_of_row for number in range(2)]
    assert 30 < np.count_nonzero(parts[0] == parts[1]) < 70
    with pytest.raises(InputError, match=r"groups.* 1"):
        halving(np.zeros(5, dtype=np.int64), 0)
