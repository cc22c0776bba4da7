"""Joins on row identity: equal to a plain join in memory, or refused with the rows named."""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from repalign.exceptions import InputError, RowMismatchError
from repalign.rows import ArrayRows
from repalign.store.index import POOLED, RowIndex, encode_ids
from repalign.store.matching import Join, join_sources
from repalign.store.source import EmbeddingSource


def make_source(
    name: str, keys: list[int], *, dim: int = 3, seed: int = 0, hashes: bool = True
) -> EmbeddingSource:
    """A source whose row of key k holds values and a hash that follow from k and the seed."""
    n_keys = max(keys, default=0) + 1
    table = np.random.default_rng(seed).standard_normal((n_keys, dim)).astype(np.float32)
    shas = np.random.default_rng(99).integers(0, 256, (n_keys, 16), dtype=np.uint8)
    places = np.array(keys, dtype=np.int64)
    index = RowIndex(
        sample=places,
        token=np.full(len(keys), POOLED, dtype=np.int32),
        sample_sha=shas[places] if hashes else None,
        ids=encode_ids(f"cat-{key}" for key in keys),
    )
    return EmbeddingSource(
        name=name,
        path=None,
        view="v",
        rows=ArrayRows(table[places]),
        index=index,
        identity="ids",
        has_sample_numbers=True,
    )


def without_ids(source: EmbeddingSource) -> EmbeddingSource:
    index = RowIndex(source.index.sample, source.index.token, source.index.sample_sha)
    return replace(source, index=index, identity="sample numbers")


def in_row_order(source: EmbeddingSource) -> EmbeddingSource:
    places = np.arange(source.n_rows)
    return replace(
        source,
        index=RowIndex(places, np.full(source.n_rows, POOLED)),
        identity="row order",
        has_sample_numbers=False,
    )


def with_token(source: EmbeddingSource, token: list[int]) -> EmbeddingSource:
    columns = {**source.index.columns, "token": np.array(token)}
    return replace(source, index=RowIndex(**columns))


def all_rows(join: Join) -> list[np.ndarray]:
    return [rows.read(0, rows.shape[0]) for rows in join.rows]


def whole(source: EmbeddingSource) -> np.ndarray:
    return source.rows.read(0, source.n_rows)


def test_same_order_is_read_in_place() -> None:
    source, target = make_source("a", [0, 1, 2]), make_source("b", [0, 1, 2], seed=1)

    join = join_sources([source, target])

    assert join.source is source.rows
    assert join.target is target.rows
    assert join.index is source.index
    assert join.report.is_same_order
    assert join.report.matched_by == "ids and hashes"
    assert join.report.access == ("in order", "in order")
    assert join.report.warnings == ()


def test_other_order_gives_matching_rows() -> None:
    source, target = make_source("a", [0, 1, 2, 3]), make_source("b", [2, 0, 3, 1], seed=1)

    join = join_sources([source, target])

    got_source, got_target = all_rows(join)
    np.testing.assert_array_equal(got_source, whole(source))
    np.testing.assert_array_equal(got_target, whole(target)[[1, 3, 0, 2]])
    assert not join.report.is_same_order
    assert join.report.is_complete


def test_three_sources_are_aligned() -> None:
    sources = [
        make_source("a", [0, 1, 2]),
        make_source("b", [2, 1, 0]),
        make_source("c", [1, 2, 0]),
    ]

    first, second, third = all_rows(join_sources(sources))

    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(first, third)


def test_missing_row_is_refused_by_name() -> None:
    with pytest.raises(
        RowMismatchError, match=r"a .*1 of its 3 .*\('cat-1'\); b .*none .*--on-mismatch intersect"
    ):
        join_sources([make_source("a", [0, 1, 2]), make_source("b", [0, 2])])


def test_rows_missing_on_both_sides_are_named_on_both() -> None:
    with pytest.raises(
        RowMismatchError, match=r"a has 4 .*'cat-0', 'cat-1', 'cat-2', ….*b .* 1 .*'cat-9'"
    ):
        join_sources([make_source("a", [0, 1, 2, 3, 5]), make_source("b", [5, 9])])


def test_doubled_row_is_refused_by_name_whatever_the_policy() -> None:
    sources = [make_source("a", [0, 1]), make_source("b", [0, 1, 1])]

    for policy in ("refuse", "intersect"):
        with pytest.raises(RowMismatchError, match=r"b: .* 1 row \('cat-1'\)"):
            join_sources(sources, policy=policy)


def test_doubled_rows_in_the_same_order_are_refused_too() -> None:
    with pytest.raises(RowMismatchError, match=r"a: .* 1 row \('cat-1'\)"):
        join_sources([make_source("a", [0, 1, 1]), make_source("b", [0, 1, 1])])


def changed_hash(source: EmbeddingSource, row: int) -> EmbeddingSource:
    hashes = np.array(source.index.sample_sha)
    hashes[row, 0] ^= 1
    return replace(source, index=RowIndex(**{**source.index.columns, "sample_sha": hashes}))


def test_changed_input_is_refused_by_name() -> None:
    target = changed_hash(make_source("b", [2, 1, 0]), 1)

    with pytest.raises(RowMismatchError, match=r"hashes .* a and b \('cat-1'\)"):
        join_sources([make_source("a", [0, 1, 2]), target])


def test_intersect_leaves_out_missing_and_changed_rows_and_says_so() -> None:
    source = make_source("a", [0, 1, 2, 3])
    target = changed_hash(make_source("b", [4, 3, 1, 0], seed=1), 2)

    join = join_sources([source, target], policy="intersect")

    got_source, got_target = all_rows(join)
    np.testing.assert_array_equal(got_source, whole(source)[[0, 3]])
    np.testing.assert_array_equal(got_target, whole(target)[[3, 1]])
    assert (join.report.n_rows, join.report.n_common) == ((4, 4), 2)
    assert join.report.policy == "intersect"
    assert join.report.n_changed == 1
    common, changed = join.report.warnings
    assert re.search("2 of 4 .*a, 2 of 4 .*b", common)
    assert re.search("1 row .*hashes", changed)
    np.testing.assert_array_equal(join.index.sample, [0, 3])


def test_intersect_of_changed_rows_only_is_refused() -> None:
    target = changed_hash(make_source("b", [0]), 0)

    with pytest.raises(RowMismatchError, match="input hashes disagree"):
        join_sources([make_source("a", [0]), target], policy="intersect")


def test_nothing_in_common_shows_examples_of_both() -> None:
    with pytest.raises(RowMismatchError, match=r"no row .*'cat-0'.*'cat-1'"):
        join_sources([make_source("a", [0]), make_source("b", [1])], policy="intersect")


def test_tokens_and_pooled_rows_are_told_apart() -> None:
    tokens = with_token(make_source("a", [0, 0, 1]), [0, 1, 0])

    with pytest.raises(RowMismatchError, match=r"a .*token .*b .*sample"):
        join_sources([tokens, make_source("b", [0, 1])])


def test_tokens_are_part_of_the_identity() -> None:
    source = with_token(make_source("a", [0, 0, 1]), [0, 1, 0])
    target = with_token(make_source("b", [0, 1, 0]), [1, 0, 0])

    _, got = all_rows(join_sources([source, target]))

    np.testing.assert_array_equal(got, whole(target)[[2, 0, 1]])


def test_missing_token_is_named_with_its_sample() -> None:
    source = with_token(make_source("a", [0, 0]), [0, 7])
    target = with_token(make_source("b", [0]), [0])

    with pytest.raises(RowMismatchError, match=r"'cat-0' token 7"):
        join_sources([source, target])


def test_stores_without_ids_are_matched_by_sample_number_and_hash() -> None:
    source = without_ids(make_source("a", [0, 1, 2]))
    target = without_ids(make_source("b", [2, 0, 1], seed=1))

    join = join_sources([source, target])

    np.testing.assert_array_equal(all_rows(join)[1], whole(target)[[1, 2, 0]])
    assert join.report.matched_by == "sample numbers and hashes"
    with pytest.raises(RowMismatchError, match="sample 2"):
        join_sources([source, without_ids(make_source("b", [0, 1]))])


def test_ids_without_hashes_are_reported_as_such() -> None:
    sources = [make_source("a", [0, 1]), make_source("b", [1, 0], hashes=False)]

    assert join_sources(sources).report.matched_by == "ids"


def test_without_ids_rows_are_matched_by_order_and_it_is_said() -> None:
    source, target = make_source("a", [4, 2]), in_row_order(make_source("b", [4, 2], seed=1))

    join = join_sources([source, target])

    np.testing.assert_array_equal(all_rows(join)[1], whole(target))
    assert join.report.matched_by == "row order"
    assert "row order" in join.report.warnings[0]


def test_row_order_needs_equal_counts() -> None:
    sources = [make_source("a", [0, 1, 2]), in_row_order(make_source("b", [0, 1]))]

    for policy in ("refuse", "intersect"):
        with pytest.raises(RowMismatchError, match=r"a .*3 rows .*b .*2, .*--ids"):
            join_sources(sources, policy=policy)


def test_row_order_is_refused_where_the_ids_of_others_contradict_it() -> None:
    sources = [
        make_source("a", [0, 1]),
        in_row_order(make_source("b", [0, 1])),
        make_source("c", [1, 0]),
    ]

    with pytest.raises(RowMismatchError, match=r"a and c .*orders .*b "):
        join_sources(sources)


def test_one_source_or_an_unknown_policy_is_refused() -> None:
    source = make_source("a", [0])

    with pytest.raises(InputError, match="got 1 set"):
        join_sources([source])
    with pytest.raises(InputError, match="policy: got 'merge'"):
        join_sources([source, source], policy="merge")  # type: ignore[arg-type]


keys = st.lists(st.integers(0, 30), min_size=1, max_size=20, unique=True)


@given(common=keys, data=st.data())
def test_a_permuted_join_equals_the_plain_join(common: list[int], data: st.DataObject) -> None:
    source = make_source("a", common)
    target = make_source("b", data.draw(st.permutations(common)), seed=1)

    got_source, got_target = all_rows(join_sources([source, target]))

    where = {name: row for row, name in enumerate(target.index.ids.tolist())}
    order = [where[name] for name in source.index.ids.tolist()]
    np.testing.assert_array_equal(got_source, whole(source))
    np.testing.assert_array_equal(got_target, whole(target)[order])


@given(first=keys, second=keys)
def test_intersect_keeps_exactly_the_common_rows_in_source_order(
    first: list[int], second: list[int]
) -> None:
    sources = [make_source("a", first), make_source("b", second, seed=1)]
    common = [key for key in first if key in second]
    if not common:
        with pytest.raises(RowMismatchError, match="no row"):
            join_sources(sources, policy="intersect")
        return

    join = join_sources(sources, policy="intersect")

    got_source, got_target = all_rows(join)
    np.testing.assert_array_equal(got_source, whole(sources[0])[[first.index(k) for k in common]])
    np.testing.assert_array_equal(got_target, whole(sources[1])[[second.index(k) for k in common]])
    np.testing.assert_array_equal(join.index.sample, common)


@given(common=keys, data=st.data())
def test_any_dropped_or_doubled_row_is_refused_with_its_id(
    common: list[int], data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(common))
    victim = data.draw(st.sampled_from(common))
    doubled = [*shuffled, victim]
    dropped = [key for key in shuffled if key != victim]

    with pytest.raises(RowMismatchError, match=f"'cat-{victim}'"):
        join_sources([make_source("a", common), make_source("b", doubled)])
    if dropped:
        with pytest.raises(RowMismatchError, match=f"'cat-{victim}'"):
            join_sources([make_source("a", common), make_source("b", dropped)])


@given(common=keys, data=st.data())
def test_blocks_and_takes_agree_with_the_whole(common: list[int], data: st.DataObject) -> None:
    target = make_source("b", data.draw(st.permutations(common)), seed=1)
    rows = join_sources([make_source("a", common), target]).target
    every = rows.read(0, rows.shape[0])
    start = data.draw(st.integers(0, len(common)))
    stop = data.draw(st.integers(start, len(common)))
    wanted = sorted(data.draw(st.sets(st.integers(0, len(common) - 1))))

    np.testing.assert_array_equal(rows.read(start, stop), every[start:stop])
    np.testing.assert_array_equal(rows.take(np.array(wanted, dtype=np.int64)), every[wanted])
