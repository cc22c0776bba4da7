from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from repalign.aliases import Rows
from repalign.core.rows import ArrayRows, SubsetRows, block_rows_for, iter_blocks, take_in_order
from repalign.exceptions import InputError

VALUES = np.arange(24.0).reshape(8, 3)


def test_array_rows_are_rows() -> None:
    rows = ArrayRows(VALUES)
    assert isinstance(rows, Rows)
    assert rows.shape == (8, 3)
    assert rows.dtype == np.float64
    assert_array_equal(rows.read(2, 5), VALUES[2:5])
    assert_array_equal(rows.take(np.array([0, 7])), VALUES[[0, 7]])


def test_what_is_read_is_a_copy() -> None:
    rows = ArrayRows(VALUES.copy())
    rows.read(0, 2)[:] = -1
    assert_array_equal(rows.values, VALUES)


@pytest.mark.parametrize("mode", ["r", "r+", "c"])
def test_memory_maps_keep_their_values(tmp_path: Path, mode: str) -> None:
    np.save(tmp_path / "x.npy", VALUES)
    mapped = np.load(tmp_path / "x.npy", mmap_mode=mode)
    if mode != "r":
        mapped[0, 0] = 99.0
    rows = ArrayRows(mapped)
    first = rows.read(0, 8)
    assert_array_equal(first, rows.read(0, 8))
    assert first[0, 0] == (0.0 if mode == "r" else 99.0)


def test_a_subset_is_read_by_its_own_numbers() -> None:
    rows = SubsetRows(ArrayRows(VALUES), np.array([1, 4, 6]))
    assert isinstance(rows, Rows)
    assert rows.shape == (3, 3)
    assert_array_equal(rows.read(1, 3), VALUES[[4, 6]])
    assert_array_equal(rows.take(np.array([0, 2])), VALUES[[1, 6]])


def test_rows_can_be_taken_in_any_order() -> None:
    wanted = np.array([5, 0, 5, 3])
    assert_array_equal(take_in_order(ArrayRows(VALUES), wanted), VALUES[wanted])


def test_blocks_cover_all_rows_in_order() -> None:
    blocks = list(iter_blocks(ArrayRows(VALUES), 3))
    assert [start for start, _ in blocks] == [0, 3, 6]
    assert_array_equal(np.vstack([block for _, block in blocks]), VALUES)


def test_the_block_follows_from_the_memory() -> None:
    assert block_rows_for(2_000_000, row_bytes=100) == 10_000
    assert block_rows_for(2_000_000, row_bytes=100, reserved_bytes=1_000_000) == 5_000
    assert block_rows_for(2**40, row_bytes=2**18) == 64


def test_a_cap_without_room_is_refused() -> None:
    with pytest.raises(InputError, match=r"1000 bytes.* 1\.57 KiB"):
        block_rows_for(1000, row_bytes=100)
