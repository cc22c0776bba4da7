import numpy as np

from repalign.aliases import Rows
from repalign.core.affine import AffineMap, MappedRows
from repalign.core.rows import ArrayRows, SubsetRows

VALUES = np.arange(20.0).reshape(10, 2)


def test_a_subset_reads_and_takes_only_the_chosen_rows() -> None:
    chosen = np.array([1, 4, 5, 9])
    subset = SubsetRows(ArrayRows(VALUES), chosen)
    assert isinstance(subset, Rows)
    assert subset.shape == (4, 2)
    np.testing.assert_array_equal(subset.read(1, 3), VALUES[[4, 5]])
    np.testing.assert_array_equal(subset.take(np.array([0, 3])), VALUES[[1, 9]])


def test_mapped_rows_are_the_map_of_the_rows() -> None:
    fold = AffineMap(kind="sum", matrix=np.ones((2, 1)), shift=np.ones(1))
    mapped = MappedRows(ArrayRows(VALUES), fold)
    assert isinstance(mapped, Rows)
    assert mapped.shape == (10, 1)
    np.testing.assert_array_equal(mapped.read(2, 4)[:, 0], VALUES[2:4].sum(1) + 1)
    np.testing.assert_array_equal(mapped.take(np.array([7]))[:, 0], VALUES[[7]].sum(1) + 1)
