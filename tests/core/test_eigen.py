"""Remembered decompositions are those of numpy, to the last bit."""

import numpy as np
import pytest

from repalign.core import linalg


def covariance(seed: int, dim: int = 6) -> np.ndarray:
    rows = np.random.default_rng(seed).standard_normal((20, dim))
    return rows.T @ rows


@pytest.fixture(autouse=True)
def forgotten():
    linalg.MEMO.clear()


def test_they_are_those_of_numpy_and_found_again_by_content() -> None:
    matrix = covariance(0)
    first, again = linalg.eigh(matrix), linalg.eigh(matrix.copy())
    expected = np.linalg.eigh(matrix)
    np.testing.assert_array_equal(first[0], expected[0])
    np.testing.assert_array_equal(first[1], expected[1])
    assert again[1] is first[1]
    np.testing.assert_array_equal(linalg.eigvalsh(matrix), np.linalg.eigvalsh(matrix))


def test_a_matrix_that_was_changed_is_another() -> None:
    matrix = covariance(0)
    before = linalg.eigh(matrix)[0]
    matrix *= 4
    np.testing.assert_allclose(linalg.eigh(matrix)[0], 4 * before)
    assert linalg.eigvalsh(np.zeros((2, 2))).shape == (2,)


def test_what_is_remembered_cannot_be_changed_and_has_an_end(monkeypatch) -> None:
    monkeypatch.setattr(linalg.MEMO, "memory_bytes", 3 * (6 + 36) * 8)
    kept = [linalg.eigh(covariance(seed)) for seed in range(5)]
    with pytest.raises(ValueError, match="read-only"):
        kept[0][1][0, 0] = 1
    assert linalg.eigh(covariance(4))[1] is kept[4][1]
    assert linalg.eigh(covariance(0))[1] is not kept[0][1]
