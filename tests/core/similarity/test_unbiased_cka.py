import numpy as np
import pytest
from numpy.testing import assert_allclose

from repalign.core.measures import linear_cka, unbiased_linear_cka
from repalign.exceptions import InputError
from tests.core.paired_data import moments_of
from tests.core.similarity import oracles


def cka(x: np.ndarray, y: np.ndarray) -> float:
    radii = [np.sum((side - side.mean(0)) ** 2, axis=1) for side in (x, y)]
    return unbiased_linear_cka(moments_of(x, y), *radii)


@pytest.mark.parametrize("case", oracles.CASES)
def test_it_agrees_with_the_oracles(case: str) -> None:
    expected = oracles.CASES[case]["linear_cka_debiased"]
    assert_allclose(cka(*oracles.case(case)), expected, atol=2e-6)


def test_it_is_the_estimator_of_song_written_out() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((12, 3)), rng.standard_normal((12, 5))
    n, ones = 12, np.ones(12)

    def hsic(a: np.ndarray, b: np.ndarray) -> float:
        k, other = a @ a.T, b @ b.T
        np.fill_diagonal(k, 0)
        np.fill_diagonal(other, 0)
        inner = np.trace(k @ other) + k.sum() * other.sum() / ((n - 1) * (n - 2))
        return inner - 2 / (n - 2) * ones @ k @ other @ ones

    expected = hsic(x, y) / np.sqrt(hsic(x, x) * hsic(y, y))
    assert_allclose(cka(x, y), expected, rtol=1e-12)


def test_unrelated_rows_fewer_than_columns() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.random((100, 1000)), rng.random((100, 1000))
    assert abs(cka(x, y)) < 0.1
    assert linear_cka(moments_of(x, y)) > 0.85


def test_rows_that_do_not_vary_have_none() -> None:
    assert cka(np.ones((9, 2)), np.random.default_rng(0).random((9, 2))) == 0.0


def test_too_few_rows_or_radii_are_refused() -> None:
    x = np.eye(3)
    with pytest.raises(InputError, match="3 rows"):
        cka(x, x)
    y = np.random.default_rng(0).random((5, 2))
    with pytest.raises(InputError, match=r"radii.* 5"):
        unbiased_linear_cka(moments_of(y, y), np.ones(2), np.ones(2))
