"""Identity of rows: types, slices, keys and the messages of what is refused."""

import numpy as np
import pytest

from repalign.exceptions import InputError
from repalign.store.index import RowIndex, concatenate_index, decode_ids, encode_ids, pooled_index


def example(n: int = 5) -> RowIndex:
    return RowIndex(
        sample=np.arange(n),
        token=np.arange(n) % 2,
        sample_sha=np.arange(n * 16, dtype=np.uint8).reshape(n, 16),
        ids=np.array([f"scan-{i}" for i in range(n)]),
    )


def test_columns_have_their_types_and_are_read_only() -> None:
    index = example()

    assert [values.dtype.kind for values in index.columns.values()] == ["i", "i", "u", "S"]
    assert index.sample.dtype == np.int64
    assert index.token.dtype == np.int32
    with pytest.raises(ValueError, match="read-only"):
        index.sample[0] = 3


def test_making_an_index_leaves_the_given_array_writable() -> None:
    sample = np.arange(3)

    RowIndex(sample=sample, token=np.full(3, -1))

    sample[0] = 7
    assert sample.flags.writeable


def test_slice_and_take_cut_every_column() -> None:
    index = example()

    cut = index.slice(1, 4).take(np.array([0, 2]))

    assert cut.sample.tolist() == [1, 3]
    assert decode_ids(cut.ids) == ["scan-1", "scan-3"]
    assert cut.sample_sha.tolist() == index.sample_sha[[1, 3]].tolist()


def test_same_rows_asks_for_keys_and_for_hashes_only_where_both_have_them() -> None:
    index = example()
    unhashed = RowIndex(sample=index.sample, token=index.token, ids=index.ids)
    other_sha = RowIndex(index.sample, index.token, index.sample_sha + 1, index.ids)

    assert index.is_same_rows(unhashed)
    assert not index.is_same_rows(other_sha)
    assert not index.is_same_rows(index.take(np.array([1, 0, 2, 3, 4])))
    assert not index.is_same_rows(pooled_index(5))
    assert not index.is_same_rows(index.slice(0, 4))


def test_concatenation_gives_back_what_was_cut_even_with_ids_of_different_widths() -> None:
    index = RowIndex(sample=np.arange(3), token=np.zeros(3, int), ids=np.array(["a", "bbb", "é"]))

    joined = concatenate_index([index.slice(0, 1), index.slice(1, 3)])

    np.testing.assert_equal(joined.columns, index.columns)
    assert decode_ids(joined.ids) == ["a", "bbb", "é"]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"sample": np.zeros(2)}, "sample .*float64"),
        ({"sample": np.array([-1, 0])}, "sample .* -1 to 0"),
        ({"token": np.array([-2, 0])}, "token .* -2 to 0"),
        ({"token": np.array([0, 2**40])}, "token .* 0 to 1099511627776"),
        ({"token": np.zeros(3, int)}, "token .*3 rows, sample .*2"),
        ({"sample_sha": np.zeros((2, 8), np.uint8)}, r"sample_sha .*uint8 .*\(2, 8\)"),
        ({"sample_sha": np.zeros((2, 16))}, "sample_sha .*float64"),
        ({"ids": np.zeros(2)}, "ids .*float64"),
        ({"ids": np.array([b"a", b""])}, "id .*empty"),
        ({"ids": np.array(["a", ""])}, "id '' "),
        ({"ids": np.array(["a", "x" * 1025])}, "has 1025 bytes"),
        ({"ids": np.array([b"a", b"x\0y"])}, "NUL"),
        ({"ids": np.array([b"a", b"x" * 1025])}, "up to 1025 "),
    ],
)
def test_columns_that_no_row_can_have_are_refused(columns, message: str) -> None:
    given = {"sample": np.arange(2), "token": np.full(2, -1)} | columns

    with pytest.raises(InputError, match=message):
        RowIndex(**given)


def test_ids_with_nul_are_refused_because_numpy_would_drop_them() -> None:
    with pytest.raises(InputError, match="no NUL"):
        encode_ids(["a\0"])


def test_concatenation_refuses_nothing_and_different_columns() -> None:
    with pytest.raises(InputError, match="nothing to concatenate"):
        concatenate_index([])
    with pytest.raises(InputError, match="sample, token and sample, token, ids"):
        concatenate_index([pooled_index(1), pooled_index(1, ids=["a"])])


def test_ids_that_are_not_utf8_are_shown_as_escapes() -> None:
    assert decode_ids(np.array([b"\xff"])) == ["\\xff"]
    assert encode_ids([]).dtype == "S1"
