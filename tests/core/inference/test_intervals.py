import numpy as np
import pytest

from repalign.core.inference.intervals import MAX_UNITS, draw_error_means


def first_map(means: np.ndarray) -> np.ndarray:
    return means[:, 0]


def test_the_interval_of_a_mean_is_that_of_the_normal_theory() -> None:
    errors = np.random.default_rng(0).gamma(2.0, size=(1, 2000))
    draws = draw_error_means(errors, np.arange(2000), n_draws=2000, seed=0)
    interval = draws.interval(first_map)
    half = 1.96 * errors.std() / np.sqrt(2000)
    # 2000 draws place a 2.5 % quantile to about 5 % of the half width
    assert interval.low == pytest.approx(errors.mean() - half, abs=0.1 * half)
    assert interval.high == pytest.approx(errors.mean() + half, abs=0.1 * half)


def test_many_rows_are_bundled_without_changing_the_width() -> None:
    n = 10 * MAX_UNITS
    errors = np.random.default_rng(1).gamma(2.0, size=(1, n))
    interval = draw_error_means(errors, np.arange(n), n_draws=1000, seed=0).interval(first_map)
    width = 2 * 1.96 * errors.std() / np.sqrt(n)
    assert interval.high - interval.low == pytest.approx(width, rel=0.1)


def test_coverage_of_the_true_mean_is_near_the_level() -> None:
    covered = 0
    for trial in range(200):
        errors = np.random.default_rng(trial).gamma(2.0, size=(1, 200))
        draws = draw_error_means(errors, np.arange(200), n_draws=300, seed=trial)
        interval = draws.interval(first_map)
        covered += interval.low <= 2.0 <= interval.high
    # binomial(200, 0.95) has a standard deviation of 3; small samples of a skewed law lose some
    assert 180 <= covered <= 198


def test_rows_of_one_group_are_drawn_together() -> None:
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(50), 40)
    errors = (rng.gamma(2.0, size=50)[groups] + 0.01 * rng.random(2000))[None]
    by_row = draw_error_means(errors, np.arange(2000), n_draws=500, seed=0).interval(first_map)
    by_group = draw_error_means(errors, groups, n_draws=500, seed=0).interval(first_map)
    assert by_group.high - by_group.low > 4 * (by_row.high - by_row.low)


def test_maps_are_drawn_on_the_same_rows_so_that_a_ratio_is_tight() -> None:
    errors = np.random.default_rng(0).gamma(2.0, size=(1, 300))
    draws = draw_error_means(np.vstack([errors, 2 * errors]), np.arange(300), n_draws=100, seed=0)
    ratio = draws.interval(lambda means: means[:, 1] / means[:, 0])
    assert ratio.low == pytest.approx(2)
    assert ratio.high == pytest.approx(2)


def test_an_undefined_statistic_has_no_interval() -> None:
    draws = draw_error_means(np.ones((1, 10)), np.arange(10), n_draws=10, seed=0)
    interval = draws.interval(lambda means: np.full(len(means), np.nan))
    assert np.isnan(interval.low)
    assert np.isnan(interval.high)
