import numpy as np
import pytest

from repalign.core.inference.nulls import JudgedMap, NullErrors, shuffled_pairing_null
from repalign.core.inference.splits import fold_split, held_out_split, no_split
from repalign.core.maps.affine import AffineMap
from repalign.core.maps.fitting import fit_map
from repalign.core.moments import PairMoments

KINDS = ("mean", "permutation", "rigid", "linear")


def fit_all(moments: PairMoments, left_out: int | None) -> list[JudgedMap]:
    return [JudgedMap(fit_map(kind, moments)) for kind in KINDS]


def unrelated(n: int, d: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)), rng.standard_normal((n, d))


def test_a_planted_rotation_is_far_outside_the_null() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((200, 5))
    y = x @ np.linalg.qr(rng.standard_normal((5, 5)))[0] + 0.1 * rng.standard_normal((200, 5))
    split = held_out_split(np.arange(200), 0.2, seed=0)
    nulls = shuffled_pairing_null(x, y, fit_all=fit_all, split=split, n_shuffles=39, seed=0)
    for null in nulls:
        assert null is not None
        p_values = dict(zip(KINDS, null.p_values(), strict=True))
        assert p_values["rigid"] == p_values["linear"] == 1 / 40
        assert (null.shuffled[:, 2] > 3 * null.observed[2]).all()


def test_the_mean_never_differs_from_its_null() -> None:
    x, y = unrelated(100, 3)
    null, _ = shuffled_pairing_null(
        x, y, fit_all=fit_all, split=no_split(100), n_shuffles=9, seed=0
    )
    assert null.p_values()[0] == 1
    np.testing.assert_allclose(null.shuffled[:, 0], null.observed[0], rtol=1e-12)


def test_p_values_of_unrelated_data_are_uniform() -> None:
    p_values = []
    for trial in range(60):
        x, y = unrelated(60, 3, seed=trial)
        null, _ = shuffled_pairing_null(
            x, y, fit_all=fit_all, split=no_split(60), n_shuffles=19, seed=trial
        )
        p_values.append(null.p_values()[2])
    # mean of 60 uniform values: standard deviation 0.037
    assert np.mean(p_values) == pytest.approx(0.525, abs=0.12)
    assert np.mean(np.array(p_values) <= 0.1) < 0.25


def test_observed_errors_are_those_of_the_maps_fitted_on_all_rows() -> None:
    x, y = unrelated(150, 4)
    null, _ = shuffled_pairing_null(
        x, y, fit_all=fit_all, split=no_split(150), n_shuffles=1, seed=0
    )
    centred = x - x.mean(0)
    fitted = centred @ np.linalg.lstsq(centred, y - y.mean(0), rcond=None)[0] + y.mean(0)
    expected = np.linalg.norm(fitted - y, axis=1).mean()
    assert null.observed[KINDS.index("linear")] == pytest.approx(expected, rel=1e-9)


def test_held_out_errors_are_those_of_maps_that_never_saw_the_rows() -> None:
    x, y = unrelated(90, 4)
    split = fold_split(np.arange(90), 3, seed=0)
    _, null = shuffled_pairing_null(x, y, fit_all=fit_all, split=split, n_shuffles=1, seed=0)
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
    judged = JudgedMap(identity, target_space=double)
    expected = np.linalg.norm(x - (2 * y + 1), axis=1).mean()
    assert judged.mean_error(x, y) == pytest.approx(expected)


def test_the_smallest_p_value_is_one_over_the_draws_plus_one() -> None:
    null = NullErrors(np.array([0.0]), np.full((99, 1), 1.0))
    assert null.p_values()[0] == 0.01
