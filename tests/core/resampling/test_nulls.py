import re

import numpy as np
import pytest

from repalign.core.affine import AffineMap
from repalign.core.maps import FittedMap, PairMaps
from repalign.core.moments import pair_moments
from repalign.core.resampling.evaluate import MapEvaluator
from repalign.core.resampling.groups import Split, fold_split, held_out_split, no_split
from repalign.core.resampling.nulls import Null, permutation_null
from repalign.core.resampling.permutations import ShufflePlan, plan_shuffles
from repalign.core.resampling.sample import MAX_JUDGED, Sample
from repalign.core.rows import ArrayRows

KINDS = ("mean", "permutation", "rigid", "linear")


def sample_of(x: np.ndarray, y: np.ndarray, split: Split) -> Sample:
    numbers, rows = np.arange(len(x)), (ArrayRows(x), ArrayRows(y))
    moments = pair_moments(*rows, part_of_row=split.part_of_row, n_parts=split.n_parts)
    return Sample(*rows, split, numbers, numbers, False, moments)


def null_of_plan(
    x: np.ndarray, y: np.ndarray, plan: ShufflePlan, n_shuffles: int, seed: int = 0
) -> tuple[Null, Null | None]:
    sample = sample_of(x, y, plan.split)
    nulls = permutation_null(MapEvaluator(KINDS), sample, plan, n_shuffles=n_shuffles, seed=seed)
    return nulls["in-sample"], nulls.get("held-out")


def unrelated(n: int, d: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)), rng.standard_normal((n, d))


def null_of_rows(
    x: np.ndarray, y: np.ndarray, split: Split, n_shuffles: int, seed: int = 0
) -> tuple[Null, Null | None]:
    return null_of_plan(x, y, plan_shuffles(np.arange(len(x)), split), n_shuffles, seed)


def test_a_planted_rotation_is_far_outside_the_null() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((200, 5))
    y = x @ np.linalg.qr(rng.standard_normal((5, 5)))[0] + 0.1 * rng.standard_normal((200, 5))
    split = held_out_split(np.arange(200), 0.2, seed=0)
    nulls = null_of_rows(x, y, split, 39)
    for null in nulls:
        assert null is not None
        p_values = dict(zip(KINDS, null.p_values(), strict=True))
        assert p_values["rigid"] == p_values["linear"] == 1 / 40
        assert (null.shuffled[:, 2] > 3 * null.observed[2]).all()


def test_the_mean_never_differs_from_its_null() -> None:
    x, y = unrelated(100, 3)
    null, _ = null_of_rows(x, y, no_split(100), 9)
    assert null.p_values()[0] == 1
    np.testing.assert_allclose(null.shuffled[:, 0], null.observed[0], rtol=1e-12)


def test_p_values_of_unrelated_data_are_uniform() -> None:
    p_values = []
    for trial in range(60):
        x, y = unrelated(60, 3, seed=trial)
        null, _ = null_of_rows(x, y, no_split(60), 19, seed=trial)
        p_values.append(null.p_values()[2])
    # mean of 60 uniform values: standard deviation 0.037
    assert np.mean(p_values) == pytest.approx(0.525, abs=0.12)
    assert np.mean(np.array(p_values) <= 0.1) < 0.25


def test_observed_errors_are_those_of_the_maps_fitted_on_all_rows() -> None:
    x, y = unrelated(150, 4)
    null, _ = null_of_rows(x, y, no_split(150), 1)
    centred = x - x.mean(0)
    fitted = centred @ np.linalg.lstsq(centred, y - y.mean(0), rcond=None)[0] + y.mean(0)
    expected = np.linalg.norm(fitted - y, axis=1).mean()
    assert null.observed[KINDS.index("linear")] == pytest.approx(expected, rel=1e-9)


def test_held_out_errors_are_those_of_maps_that_never_saw_the_rows() -> None:
    x, y = unrelated(90, 4)
    split = fold_split(np.arange(90), 3, seed=0)
    _, null = null_of_rows(x, y, split, 1)
    norms = []
    for part in split.judged:
        fit, judge = split.fitting_rows(part), split.judged_rows(part)
        design = np.column_stack([x[fit], np.ones(fit.size)])
        weights = np.linalg.lstsq(design, y[fit], rcond=None)[0]
        norms.append(np.linalg.norm(x[judge] @ weights[:-1] + weights[-1] - y[judge], axis=1))
    assert null is not None
    expected = np.concatenate(norms).mean()
    assert null.observed[KINDS.index("linear")] == pytest.approx(expected, rel=1e-9)


def test_an_error_may_live_in_another_space() -> None:
    x, y = unrelated(50, 2)
    double = AffineMap(kind="double", matrix=2 * np.eye(2), shift=np.ones(2))
    identity = AffineMap(kind="identity", matrix=np.eye(2), shift=np.zeros(2))
    maps = PairMaps({"it": FittedMap(identity, target_space=double)}, None)
    errors = MapEvaluator(("it",)).errors(sample_of(x, y, no_split(50)), None, maps)["it"]
    assert errors.mean() == pytest.approx(np.linalg.norm(x - (2 * y + 1), axis=1).mean())


def test_the_smallest_p_value_is_one_over_the_draws_plus_one() -> None:
    within = plan_shuffles(np.arange(9), no_split(9)).within
    null = Null(np.array([0.0]), np.full((99, 1), 1.0), within)
    assert null.p_values()[0] == null.smallest_p == 0.01


def in_groups(
    sizes: list[int], d: int, seed: int, share: float = 0.8
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two independent representations whose rows share most of their variance in their group."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(len(sizes)), sizes)
    x, y = (
        np.sqrt(share) * rng.standard_normal((len(sizes), d))[groups]
        + np.sqrt(1 - share) * rng.standard_normal((groups.size, d))
        for _ in range(2)
    )
    return x, y, groups


@pytest.mark.parametrize(
    "sizes",
    [
        pytest.param([10] * 15, marks=pytest.mark.slow),
        [30, 25, 20, 16, 12, 9, 7, 5, 4, 3, 3, 2, 2, 1, 1],
    ],
)
def test_unrelated_groups_are_rejected_no_more_often_than_they_should(sizes: list[int]) -> None:
    by_row, by_group = [], []
    for trial in range(50):
        x, y, groups = in_groups(sizes, 3, seed=trial)
        split = no_split(len(x))
        by_row.append(null_of_rows(x, y, split, 19, seed=trial)[0].p_values())
        plan = plan_shuffles(groups, split)
        null, _ = null_of_plan(x, y, plan, 19, trial)
        by_group.append(null.p_values())
    assert (np.array(by_row)[:, 1:] <= 0.05).mean(0).min() > 0.7
    # binomial(50, 0.05) exceeds 8 in one of a thousand
    assert (np.array(by_group)[:, 1:] <= 0.05).sum(0).max() <= 8


def test_what_the_rows_share_beyond_their_group_is_found_inside_the_groups() -> None:
    x, y, groups = in_groups([10] * 12, 3, seed=0)
    shared_group = x[np.arange(120) // 10 * 10]
    plan = plan_shuffles(groups, no_split(120), beyond_groups=True)
    only_group, _ = null_of_plan(x, y + shared_group, plan, 39)
    assert only_group.p_values()[3] > 0.1
    beyond, _ = null_of_plan(x, y + x, plan, 39)
    assert beyond.p_values()[3] == 1 / 40


def test_five_groups_in_parts_have_a_p_value_in_sample_only() -> None:
    x, y, groups = in_groups([12] * 5, 2, seed=1)
    split = held_out_split(groups, 0.2, seed=0)
    plan = plan_shuffles(groups, split)
    in_sample, held_out = null_of_plan(x, x + 0.01 * y, plan, 200)
    assert held_out is not None
    assert len(in_sample.shuffled) == 119
    assert in_sample.p_values()[2] == in_sample.smallest_p == 1 / 120
    assert np.isnan(held_out.p_values()).all()
    assert len(held_out.shuffled) == 23
    assert re.search(r"\b4 of 5 groups\b.* 24\b.* 120\b", held_out.refusal)


def test_one_group_has_neither_a_null_nor_a_p_value() -> None:
    x, y = unrelated(20, 2)
    plan = plan_shuffles(np.zeros(20, dtype=int), no_split(20))
    null, _ = null_of_plan(x, y, plan, 9)
    assert np.isnan(null.means()).all()
    assert np.isnan(null.p_values()).all()


def test_observed_and_shuffled_errors_are_those_of_the_kept_rows() -> None:
    x, y, groups = in_groups([8, 6, 6, 6, 6, 6], 2, seed=3)
    plan = plan_shuffles(groups, no_split(38))
    null, _ = null_of_plan(x, y, plan, 0)
    kept = plan.within.kept
    assert kept.size == 36
    design = np.column_stack([x[kept], np.ones(36)])
    residual = design @ np.linalg.lstsq(design, y[kept], rcond=None)[0] - y[kept]
    expected = np.linalg.norm(residual, axis=1).mean()
    assert null.observed[3] == pytest.approx(expected, rel=1e-9)


def test_large_errors_are_judged_on_some_of_the_rows() -> None:
    n, d = MAX_JUDGED + 500, 400
    x = np.random.default_rng(0).standard_normal((n, d)).astype(np.float32)
    plan = plan_shuffles(np.arange(n), no_split(n))
    sample = sample_of(x, x, no_split(n))
    judging = sample.kept(plan.within, np.random.default_rng(0)).rows_in(None)
    assert [side.shape for side in judging] == [(MAX_JUDGED, d)] * 2
