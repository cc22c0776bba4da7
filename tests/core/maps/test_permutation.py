import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose

from repalign.core.maps.permutation import fit_permutation, match_signed
from tests.core.paired_data import moments_of


@pytest.mark.parametrize("seed", range(10))
def test_no_signed_permutation_has_less_squared_error(seed: int) -> None:
    rng = np.random.default_rng(seed)
    d = int(rng.integers(2, 5))
    x, y = rng.standard_normal((30, d)), rng.standard_normal((30, d))
    xc, yc = x - x.mean(0), y - y.mean(0)
    lowest = min(
        float(np.sum((xc[:, list(order)] * signs - yc) ** 2))
        for order in itertools.permutations(range(d))
        for signs in itertools.product([-1, 1], repeat=d)
    )
    fitted = fit_permutation(moments_of(x, y))
    assert_allclose(np.sum((fitted.apply(x) - y) ** 2), lowest, rtol=1e-10)


def test_correlation_cost_ignores_the_columns_variances() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((500, 3)) * [100, 1, 1]
    y = x[:, [2, 0, 1]] / [1, 100, 1] + 0.01 * rng.standard_normal((500, 3))
    moments = moments_of(x + 0.02 * x[:, :1] * [0, 1, 0], y)
    fitted = fit_permutation(moments, cost="correlation")
    assert np.abs(fitted.matrix).argmax(axis=0).tolist() == [2, 0, 1]


def test_a_constant_column_does_not_disturb_the_correlation_cost() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((50, 3)) * [1, 0, 1]
    fitted = fit_permutation(moments_of(x, x), cost="correlation")
    assert_allclose(fitted.matrix, np.eye(3))


def test_pairs_without_similarity_keep_a_sign() -> None:
    matching = match_signed(np.zeros((3, 3)))
    assert matching.sign.tolist() == [1, 1, 1]
