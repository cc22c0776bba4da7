from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import t

from repalign.core.inference.kept_rows import JudgedMap
from repalign.core.inference.left_out import (
    MAX_LEFT_OUT,
    Claim,
    Interval,
    LeftOut,
    leave_groups_out,
)
from repalign.core.inference.ranges import ANYWHERE, POSITIVE
from repalign.core.inference.refits import InSample, refit_without_groups
from repalign.core.inference.splits import halving
from repalign.core.maps.fitting import fit_map
from repalign.core.moments import PairMoments, pair_moments
from repalign.core.rows import ArrayRows


def first(means: np.ndarray) -> np.ndarray:
    return means[..., 0]


def error_interval(errors: np.ndarray, groups: np.ndarray) -> Interval:
    return leave_groups_out(errors, groups).interval(first, within=POSITIVE)


def test_the_interval_of_a_mean_of_many_rows_is_that_of_the_normal_theory() -> None:
    errors = np.random.default_rng(0).gamma(2.0, size=(1, 2000))
    found = leave_groups_out(errors, np.arange(2000)).interval(first, within=ANYWHERE)
    half = 1.9612 * errors.std(ddof=1) / np.sqrt(2000)
    assert_allclose([found.low, found.high], errors.mean() + np.array([-half, half]), rtol=1e-4)
    assert found.claim is Claim.FITTED_MAP


def test_unequal_groups_count_by_their_worth() -> None:
    sizes = np.array([40, 30, 6, 5, 5, 4, 4, 3, 2, 1] * 2)
    groups = np.repeat(np.arange(sizes.size), sizes)
    errors = 5 + np.random.default_rng(0).standard_normal(groups.size)
    found = leave_groups_out(errors[None], groups).interval(first, within=ANYWHERE)
    without = np.array([errors[groups != group].mean() for group in range(sizes.size)])
    n, worth = sizes.size, sizes.sum() ** 2 / (sizes**2).sum()
    error = np.sqrt((n - 1) / n * np.sum((without - errors.mean()) ** 2))
    assert_allclose((found.high - found.low) / 2 / error, t.ppf(0.975, worth - 1), rtol=1e-6)


def test_many_rows_are_bundled_without_changing_the_width() -> None:
    n = 10 * MAX_LEFT_OUT
    errors = np.random.default_rng(1).gamma(2.0, size=(1, n))
    found = error_interval(errors, np.arange(n))
    assert found.n_groups == n
    width = 2 * 1.96 * errors.std() / np.sqrt(n)
    # the spread of 4000 values is known to about 1 %
    assert found.high - found.low == pytest.approx(width, rel=0.05)


@pytest.mark.parametrize(("n_groups", "is_equal"), [(5, True), (5, False), (12, False)])
def test_few_groups_are_covered(n_groups: int, is_equal: bool) -> None:
    intervals = []
    for trial in range(600):
        rng = np.random.default_rng(trial)
        sizes = np.full(n_groups, 15)
        if not is_equal:
            sizes = (8 * (1 + rng.pareto(1.5, n_groups))).clip(max=200).astype(int)
        groups = np.repeat(np.arange(n_groups), sizes)
        difficulty = rng.gamma(8.0, 1 / 8, n_groups)
        errors = difficulty[groups] * rng.gamma(4.0, 1 / 4, groups.size)
        intervals.append(error_interval(errors[None], groups))
    known = [found for found in intervals if found.refusal is None]
    assert len(known) > 500
    covered = np.mean([found.low <= 1 <= found.high for found in known])
    # 99.9 % of binomial(500, 0.95) lies above 0.92; the percentile bootstrap has 0.72 to 0.9
    assert 0.915 <= covered <= 0.985


def test_a_ratio_of_two_errors_on_the_same_rows_is_tight() -> None:
    errors = np.random.default_rng(0).gamma(2.0, size=(1, 300))
    left_out = leave_groups_out(np.vstack([errors, 2 * errors]), np.arange(300))
    found = left_out.interval(lambda means: means[..., 1] / means[..., 0], within=ANYWHERE)
    assert_allclose([found.low, found.high], 2)


def test_an_error_of_zero_has_an_interval_of_no_width() -> None:
    found = error_interval(np.zeros((1, 20)), np.arange(20))
    assert (found.low, found.high) == (0, 0)


def test_errors_never_have_a_negative_end() -> None:
    groups = np.repeat(np.arange(4), 5)
    errors = np.array([[0.0, 0.0, 0.1, 3.0]])[:, groups]
    assert error_interval(errors, groups).low > 0


def test_two_groups_have_no_interval_and_nine_are_flagged() -> None:
    errors = np.random.default_rng(0).random((1, 90))
    two = error_interval(errors, np.arange(90) % 2)
    assert np.isnan([two.low, two.high]).all()
    assert two.refusal == (
        "no interval: 2 judged groups, and 3 are needed; judge more groups, for example in 5 folds"
    )


def test_one_large_group_has_no_interval() -> None:
    groups = np.repeat(np.arange(4), [100, 2, 2, 2])
    found = error_interval(np.random.default_rng(0).random((1, 106)), groups)
    assert found.refusal is not None
    assert "one group holds most of the judged rows (4 groups are worth 1.1" in found.refusal


def test_a_number_that_is_undefined_without_a_group_has_no_interval() -> None:
    left_out = leave_groups_out(np.ones((1, 10)), np.arange(10))
    found = left_out.interval(lambda means: np.full(means.shape[:-1], np.nan), within=ANYWHERE)
    assert np.isnan(found.low)
    assert found.refusal == "the number is not defined without some of the groups"


def test_another_source_of_chance_widens_both_sides() -> None:
    wide = Interval(0.7, 1.4, Claim.PROCEDURE, 20).widened(1.0, 0.4)
    assert_allclose([wide.low, wide.high], [0.5, 1 + np.hypot(0.4, 0.4)])


KINDS = ("permutation", "linear")


def fit_all(moments: PairMoments, _: int | None) -> list[JudgedMap]:
    return [JudgedMap(fit_map(kind, moments)) for kind in KINDS]


def norms(maps: list[JudgedMap], x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.stack([np.linalg.norm(judged.map.apply(x) - y, axis=1) for judged in maps])


def in_sample(x: np.ndarray, y: np.ndarray, groups: np.ndarray, **options: int) -> LeftOut:
    (moments,) = pair_moments(ArrayRows(x), ArrayRows(y))
    errors = norms(fit_all(moments, None), x, y)
    fitted = InSample(ArrayRows(x), ArrayRows(y), moments, errors, groups)
    return refit_without_groups(fitted, fit_all, **options)


def noisy_pair(sizes: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(sizes.size), sizes)
    x = rng.standard_normal((groups.size, 4))
    noise = rng.standard_normal((sizes.size, 4))[groups] + rng.standard_normal(x.shape)
    return x, x @ np.diag([1.0, -1, 1, 1]) + noise, groups


def test_without_a_group_the_maps_are_fitted_and_judged_on_the_rest() -> None:
    x, y, groups = noisy_pair(np.array([9, 7, 12, 8]), seed=0)
    found = in_sample(x, y, groups)
    for number in range(4):
        rest = groups != number
        (moments,) = pair_moments(ArrayRows(x[rest]), ArrayRows(y[rest]))
        expected = norms(fit_all(moments, None), x[rest], y[rest]).mean(axis=1)
        assert_allclose(found.without[number], expected, rtol=1e-8)
    assert found.claim is Claim.PROCEDURE


def test_the_moments_of_bundles_may_come_in_several_passes() -> None:
    x, y, groups = noisy_pair(np.full(12, 5), seed=1)
    once = in_sample(x, y, groups)
    by_five = in_sample(x, y, groups, moments_bytes=5 * 8 * 48)
    assert_allclose(by_five.without, once.without, rtol=1e-9)


def test_many_groups_are_left_out_in_bundles() -> None:
    x, y, groups = noisy_pair(np.full(80, 4), seed=2)
    found = in_sample(x, y, groups, max_refits=16)
    assert found.without.shape == (16, 2)
    assert found.n_groups == 80
    assert (found.sizes == 20).all()
    every = in_sample(x, y, groups, max_refits=80).interval(first, within=ANYWHERE)
    bundled = found.interval(first, within=ANYWHERE)
    # the spread of 16 values is known to about 20 %, and t is 9 % larger
    assert bundled.high - bundled.low == pytest.approx(every.high - every.low, rel=0.6)


def test_two_groups_are_not_refitted_for_nothing() -> None:
    x, y, groups = noisy_pair(np.array([9, 7]), seed=0)
    assert np.isnan(in_sample(x, y, groups).interval(first, within=POSITIVE).low)


def test_the_expected_in_sample_error_is_covered_and_not_the_one_elsewhere() -> None:
    sizes = np.full(15, 8)
    samples = [noisy_pair(sizes, seed) for seed in range(160)]
    found = [in_sample(*sample) for sample in samples]
    expected = np.mean([left_out.full for left_out in found], axis=0)
    for number in range(len(KINDS)):
        intervals = [
            left_out.interval(lambda means, i=number: means[..., i], within=ANYWHERE)
            for left_out in found
        ]
        covered = np.mean([each.low <= expected[number] <= each.high for each in intervals])
        # 99.9 % of binomial(160, 0.95) lies above 0.88
        assert covered >= 0.88


def halved(errors: np.ndarray, n_halvings: int) -> LeftOut:
    groups = np.arange(errors.shape[1])
    found = []
    for number in range(n_halvings):
        split = halving(groups, (0, number))
        halves = [errors[:, split.fitting_rows(part)].mean(axis=1) for part in (0, 1)]
        found.append(halves)
    return replace(leave_groups_out(errors, groups), halves=np.array(found))


def test_halves_of_a_mean_reach_as_far_as_the_normal_theory() -> None:
    errors = np.random.default_rng(0).gamma(2.0, size=(1, 1000))
    half = 1.97 * errors.std(ddof=1) / np.sqrt(1000)
    assert halved(errors, 300).reach(first) == pytest.approx(half, rel=0.1)
    # five of them know little of the spread, which Student's t makes up for
    few = [halved(np.random.default_rng(k).gamma(2.0, size=(1, 200)), 5) for k in range(300)]
    holds = [abs(each.full[0] - 2.0) <= each.reach(first) for each in few]
    assert 0.9 < np.mean(holds) < 0.985


@pytest.mark.parametrize(
    ("n_groups", "fall", "counted"),
    [
        *((40, *case) for case in [(0.3, 1), (1, 1), (2, 2), (4, 4), (6, 6), (20, 6)]),
        # quarters of fewer than ten groups are not believed that it falls by more than the rows
        *((39, *case) for case in [(0.3, 1), (1.5, 1.5), (4, 2), (20, 2)]),
    ],
)
def test_the_variance_falls_to_all_rows_as_it_fell_from_quarters(n_groups, fall, counted) -> None:
    rng = np.random.default_rng(0)
    halves, quarters = rng.standard_normal((4000, 2, 1)), rng.standard_normal((4000, 2, 2, 1))
    some = halved(np.ones((1, n_groups)), 2)
    known = replace(some, halves=halves, quarters=np.sqrt(fall) * quarters)
    assert known.reach(first) == pytest.approx(1.96 / np.sqrt(counted), rel=0.05)
    without = replace(known, quarters=None)
    assert without.reach(first) == pytest.approx(1.96 / np.sqrt(2), rel=0.05)
    unknown = replace(known, quarters=np.full_like(quarters, np.nan))
    assert unknown.reach(first) == without.reach(first)
    assert replace(known, halves=np.ones_like(halves)).reach(first) == 0


def test_an_interval_by_halves_is_never_narrower_than_without() -> None:
    found = Interval(0.9, 1.2, Claim.PROCEDURE, 50)
    assert found.reaching(1.0, 0.05) == found
    wide = found.reaching(1.0, 0.15)
    assert_allclose([wide.low, wide.high], [0.85, 1.2])
    refused = Interval(np.nan, np.nan, Claim.PROCEDURE, 2, "two groups").reaching(1.0, 0.15)
    assert np.isnan([refused.low, refused.high]).all()


def test_halves_in_which_a_number_is_undefined_do_not_count() -> None:
    errors = np.random.default_rng(0).gamma(2.0, size=(1, 100))
    every = halved(errors, 6)
    assert every.halves is not None
    holes = every.halves.copy()
    holes[3:, 1] = np.nan
    fewer = replace(every, halves=holes).reach(first)
    assert fewer == pytest.approx(halved(errors, 3).reach(first))
    assert replace(every, halves=np.full_like(holes, np.nan)).reach(first) == 0
    assert leave_groups_out(errors, np.arange(100)).reach(first) == 0
