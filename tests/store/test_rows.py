"""Rows in a chosen order: gathered block by block, or copied once where that is cheaper."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from repalign.rows import ArrayRows
from repalign.store.rows import (
    GatheredRows,
    ReorderedRows,
    arrange_rows,
    copy_in_order,
    read_ratio,
)


class CountingRows(ArrayRows):
    """Rows of an array that count how many of them were read."""

    def __init__(self, array: np.ndarray) -> None:
        super().__init__(array)
        self.n_read = 0

    def read(self, start: int, stop: int) -> np.ndarray:
        self.n_read += stop - start
        return super().read(start, stop)

    def take(self, rows: np.ndarray) -> np.ndarray:
        assert (np.diff(rows) > 0).all(), "rows to take must be strictly increasing"
        self.n_read += len(rows)
        return super().take(rows)


def numbered(n_rows: int, dim: int = 3) -> np.ndarray:
    return np.arange(n_rows * dim, dtype=np.float32).reshape(n_rows, dim)


@given(order=st.permutations(range(12)), start=st.integers(0, 12), n_rows=st.integers(0, 12))
def test_gathered_and_reordered_rows_equal_fancy_indexing(
    order: list[int], start: int, n_rows: int
) -> None:
    values, positions = numbered(12), np.array(order)

    for rows in (
        GatheredRows(CountingRows(values), positions),
        ReorderedRows(CountingRows(values), positions, label="a"),
    ):
        np.testing.assert_array_equal(
            rows.read(start, start + n_rows), values[positions][start : start + n_rows]
        )
        np.testing.assert_array_equal(rows.take(np.arange(0, 12, 5)), values[positions][::5])


def test_a_copy_reads_every_row_once_however_often_it_is_read() -> None:
    source = CountingRows(numbered(1000))
    positions = np.random.default_rng(0).permutation(1000)
    rows = ReorderedRows(source, positions, label="a")

    for _ in range(3):
        for start in range(0, 1000, 100):
            rows.read(start, start + 100)

    assert source.n_read == 1000


def test_a_copy_is_made_in_several_blocks() -> None:
    positions = np.random.default_rng(0).permutation(40)[:30]

    rows = copy_in_order(CountingRows(numbered(40)), positions, label="a", block_bytes=7 * 12)

    np.testing.assert_array_equal(rows.read(0, 30), numbered(40)[positions])


def test_random_order_over_chunks_is_copied_and_over_single_rows_gathered() -> None:
    positions = np.random.default_rng(0).permutation(40_000)
    source = ArrayRows(numbered(40_000, 1))

    copied, copied_access = arrange_rows(source, positions, chunk_rows=256, label="a")
    gathered, gathered_access = arrange_rows(source, positions, chunk_rows=1, label="a")

    assert (copied_access, gathered_access) == ("reordered copy", "gathered")
    np.testing.assert_array_equal(copied.read(9, 99), source.read(0, 40_000)[positions][9:99])
    np.testing.assert_array_equal(gathered.read(9, 99), source.read(0, 40_000)[positions][9:99])


def test_local_disorder_over_chunks_is_gathered() -> None:
    positions = np.arange(40_000).reshape(-1, 2)[:, ::-1].reshape(-1)

    _, access = arrange_rows(ArrayRows(numbered(40_000, 1)), positions, chunk_rows=256, label="a")

    assert access == "gathered"


def test_read_ratio_counts_chunks_per_block() -> None:
    assert read_ratio(np.arange(16_384), 256) == 1.0
    # every block of 8192 rows touches all 64 chunks of 256 rows
    assert read_ratio(np.random.default_rng(0).permutation(16_384), 256) == 2.0
    assert read_ratio(np.array([], dtype=np.int64), 256) == 1.0
