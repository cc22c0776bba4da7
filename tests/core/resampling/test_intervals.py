import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import t as student

from repalign.core.resampling.intervals import (
    ANYWHERE,
    FEWEST_GROUPS,
    MAX_LEFT_OUT,
    POSITIVE,
    Interval,
    count_groups,
    delete_a_group,
    delete_a_group_with_radius,
    delete_half,
)


def first(values: np.ndarray) -> np.ndarray:
    return values[..., 0]


def error_interval(errors: np.ndarray, groups: np.ndarray) -> Interval:
    return delete_a_group(errors, groups).interval(first, within=POSITIVE)


def test_the_interval_of_a_mean_of_many_rows_is_that_of_the_normal_theory() -> None:
    errors = np.random.default_rng(0).gamma(2.0, size=(1, 2000))
    interval = delete_a_group(errors, np.arange(2000)).interval(first, within=ANYWHERE)
    half = 1.9612 * errors.std(ddof=1) / np.sqrt(2000)
    assert_allclose(
        [interval.low, interval.high], errors.mean() + np.array([-half, half]), rtol=1e-4
    )


def test_many_rows_are_bundled_without_changing_the_width() -> None:
    n = 10 * MAX_LEFT_OUT
    errors = np.random.default_rng(1).gamma(2.0, size=(1, n))
    interval = error_interval(errors, np.arange(n))
    # the spread of 4000 values is known to about 1 %
    width = 2 * 1.96 * errors.std() / np.sqrt(n)
    assert interval.high - interval.low == pytest.approx(width, rel=0.05)


@pytest.mark.parametrize("is_equal", [True, False])
def test_ten_groups_and_more_are_covered(is_equal: bool) -> None:
    intervals = []
    for trial in range(600):
        rng = np.random.default_rng(trial)
        sizes = np.full(12, 15)
        if not is_equal:
            sizes = (8 * (1 + rng.pareto(3.0, 20))).clip(max=60).astype(int)
        groups = np.repeat(np.arange(sizes.size), sizes)
        difficulty = rng.gamma(8.0, 1 / 8, sizes.size)
        errors = difficulty[groups] * rng.gamma(4.0, 1 / 4, groups.size)
        intervals.append(error_interval(errors[None], groups))
    known = [interval for interval in intervals if interval.refusal is None]
    assert len(known) > 500
    covered = np.mean([interval.low <= 1 <= interval.high for interval in known])
    # 99.9 % of binomial(500, 0.95) lies above 0.92
    assert 0.915 <= covered <= 0.985


def test_a_ratio_of_two_errors_on_the_same_rows_is_tight() -> None:
    errors = np.random.default_rng(0).gamma(2.0, size=(1, 300))
    replicates = delete_a_group(np.vstack([errors, 2 * errors]), np.arange(300))
    interval = replicates.interval(lambda v: v[..., 1] / v[..., 0], within=ANYWHERE)
    assert_allclose([interval.low, interval.high], 2)


def test_an_error_of_zero_has_an_interval_of_no_width() -> None:
    interval = error_interval(np.zeros((1, 20)), np.arange(20))
    assert (interval.low, interval.high) == (0, 0)


def test_errors_never_have_a_negative_end() -> None:
    groups = np.repeat(np.arange(10), 5)
    values = np.array([0.0] * 8 + [0.1, 3.0])
    assert error_interval(values[None, groups], groups).low > 0


@pytest.mark.parametrize(
    ("groups", "number"),
    [(np.arange(90) % 9, "9 groups"), (np.repeat(np.arange(30), [300] + [2] * 29), "30 groups")],
)
def test_fewer_than_ten_groups_of_one_size_have_no_interval(
    groups: np.ndarray, number: str
) -> None:
    interval = error_interval(np.random.default_rng(0).random((1, groups.size)), groups)
    assert np.isnan([interval.low, interval.high]).all()
    assert interval.refusal is not None
    assert number in interval.refusal
    assert str(FEWEST_GROUPS) in interval.refusal


def test_a_number_that_is_undefined_without_a_group_has_no_interval() -> None:
    replicates = delete_a_group(np.ones((1, 10)), np.arange(10))
    interval = replicates.interval(lambda v: np.full(v.shape[:-1], np.nan), within=ANYWHERE)
    assert np.isnan(interval.low)
    assert interval.refusal is not None


def test_the_radius_is_of_all_rows_and_errors_of_those_that_judge() -> None:
    rng = np.random.default_rng(0)
    groups, squares = np.arange(60) // 3, rng.gamma(2.0, size=60)
    judged = np.arange(30, 60)
    errors = rng.gamma(2.0, size=(2, 30))
    replicates = delete_a_group_with_radius(errors, judged, squares, groups)
    assert_allclose(replicates.full, [*errors.mean(axis=1), np.sqrt(squares.mean())])
    for group in (2, 15):
        stays = groups != group
        expected = [*errors[:, stays[judged]].mean(axis=1), np.sqrt(squares[stays].mean())]
        assert_allclose(replicates.draws[group], expected)
    assert replicates.groups.number == 10


def test_half_samples_of_a_mean_have_its_standard_error() -> None:
    rng = np.random.default_rng(0)
    values = rng.gamma(2.0, size=400)
    halves = np.array([rng.permutation(values)[:200].mean() for _ in range(2000)])
    replicates = delete_half(values.mean()[None], halves[:, None], np.arange(400))
    expected = values.std(ddof=1) / 20
    assert float(replicates.standard_error(first)) == pytest.approx(expected, rel=0.06)


def test_bias_of_half_samples_does_not_widen_the_interval() -> None:
    draws = np.array([[0.9], [1.1], [1.0], [1.05], [0.95]])
    one, other = (
        delete_half(np.ones(1), draws - shift, np.arange(20)).interval(first, within=ANYWHERE)
        for shift in (0.0, 0.5)
    )
    assert_allclose([one.low, one.high], [other.low, other.high])


def test_groups_of_one_size_are_worth_their_number() -> None:
    assert count_groups(np.repeat(np.arange(7), 5)).effective == pytest.approx(7)
    assert count_groups(np.repeat(np.arange(2), [30, 10])).effective == pytest.approx(1.6)


def test_groups_of_unlike_sizes_have_the_degrees_of_freedom_of_fewer() -> None:
    sizes = np.arange(2, 26)
    groups = np.repeat(np.arange(sizes.size), sizes)
    errors = np.random.default_rng(2).gamma(2.0, size=(1, groups.size))
    replicates = delete_a_group(errors, groups)
    interval = replicates.interval(first, within=ANYWHERE)
    effective = sizes.sum() ** 2 / np.square(sizes).sum()
    half = student.ppf(0.975, effective - 1) * replicates.standard_error(first)
    assert effective < sizes.size - 4
    assert (interval.high - interval.low) / 2 == pytest.approx(half, rel=1e-12)
