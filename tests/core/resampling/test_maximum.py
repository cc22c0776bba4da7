import numpy as np
from numpy.testing import assert_allclose

from repalign.core.resampling.best import Draws, best_of_many_p, common_orders, searched_p


def test_of_one_pair_it_is_the_plain_p_value() -> None:
    errors = np.random.default_rng(0).standard_normal((20, 1))
    plain = np.mean(errors[:, 0] <= errors[0, 0])
    assert_allclose(best_of_many_p(errors), [plain])


def test_it_is_the_share_of_orders_whose_best_is_as_good() -> None:
    errors = np.random.default_rng(1).gamma(2, size=(40, 6)) * [1, 10, 100, 1, 1, 1]
    errors[0, 2] = -5000
    z = (errors - errors.mean(axis=0)) / errors.std(axis=0)
    expected = [np.mean(z.min(axis=1) <= z[0, pair]) for pair in range(6)]
    assert_allclose(best_of_many_p(errors), expected)
    assert best_of_many_p(errors)[2] == 1 / 40


def test_scale_and_offset_of_a_pair_mean_nothing() -> None:
    errors = np.random.default_rng(2).standard_normal((30, 4))
    assert_allclose(best_of_many_p(errors * [1, 7, 0.1, 3] + [0, 5, 9, -2]), best_of_many_p(errors))


def test_a_pair_that_never_changes_and_one_that_is_undefined() -> None:
    errors = np.random.default_rng(3).standard_normal((20, 3))
    errors[0, 0] = -100
    errors[:, 1] = 4.0
    errors[5, 2] = np.nan
    found = best_of_many_p(errors)
    assert found[0] == 0.05
    assert found[1] == 1.0
    assert np.isnan(found[2])


def test_only_orders_that_all_pairs_share_count() -> None:
    rng = np.random.default_rng(4)
    first = Draws(("a", "b", "c"), rng.standard_normal(4))
    second = Draws(("a", "b"), rng.standard_normal(3))
    third = Draws(("a", "x", "c"), rng.standard_normal(4))
    assert common_orders([first, second]) == 2
    assert common_orders([first, second, third]) == 1
    p, n = searched_p([first, second])
    assert n == 2
    assert_allclose(p, best_of_many_p(np.stack([first.errors[:3], second.errors], axis=1)))


def test_the_best_of_unrelated_pairs_is_found_as_often_as_it_says() -> None:
    """Pairs that hang together; by the spread of the shuffled orders alone it would be 14 %."""
    rng = np.random.default_rng(5)
    shared = rng.standard_normal((2000, 20, 1))
    errors = 0.7 * shared + 0.7 * rng.standard_normal((2000, 20, 16))
    found = np.mean([best_of_many_p(each).min() <= 0.05 for each in errors])
    # the 99 % binomial interval of 2,000 trials, and what ties take from it
    assert 0.02 < found < 0.064
