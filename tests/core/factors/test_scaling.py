import numpy as np

from repalign.core.factors.scaling import unit_columns, z_scored


def test_z_scoring_leaves_constant_columns_at_zero() -> None:
    scaled = z_scored(np.column_stack([[1.0, 3.0], [0.1, 0.1]]))
    assert scaled.tolist() == [[-1.0, 0.0], [1.0, 0.0]]


def test_z_scoring_can_be_by_some_of_the_rows() -> None:
    scaled = z_scored(np.array([[1.0], [3.0], [10.0]]), by=slice(0, 2))
    assert scaled.tolist() == [[-1.0], [1.0], [8.0]]


def test_unit_columns_have_norm_one_or_are_zero() -> None:
    scaled = unit_columns(np.column_stack([[1.0, 3.0], [0.1, 0.1]]))
    assert np.allclose(scaled, [[-(0.5**0.5), 0.0], [0.5**0.5, 0.0]], atol=1e-15)
