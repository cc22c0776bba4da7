import numpy as np
import pytest
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from repalign import InputError
from repalign.core.estimators import KINDS, AlignmentRegressor


@parametrize_with_checks([AlignmentRegressor()])
def test_scikit_learns_own_checks(estimator, check) -> None:
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks([AlignmentRegressor("ica")])
def test_scikit_learns_own_checks_of_ica(estimator, check) -> None:
    check(estimator)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "identity"])
def test_every_kind_predicts_one_target_from_several_columns(kind: str) -> None:
    """`identity` needs as many targets as columns."""
    rng = np.random.default_rng(0)
    x = rng.laplace(size=(60, 4))
    predicted = AlignmentRegressor(kind).fit(x, x[:, 0]).predict(x)
    assert predicted.shape == (60,)
    assert np.isfinite(predicted).all()


def test_it_predicts_a_planted_rotation_held_out_in_a_pipeline() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((120, 4))
    y = 3 * x @ np.linalg.qr(rng.standard_normal((4, 4)))[0] - 1
    pipeline = make_pipeline(StandardScaler(with_std=False), AlignmentRegressor("rigid"))
    assert cross_val_score(pipeline, x, y).min() == pytest.approx(1)


def test_float32_stays_float32() -> None:
    x = np.random.default_rng(0).standard_normal((20, 3)).astype(np.float32)
    assert AlignmentRegressor("linear").fit(x, x).predict(x).dtype == np.float32


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(InputError, match=r"'affine'.* mean, identity"):
        AlignmentRegressor("affine").fit(np.ones((3, 2)), np.ones((3, 2)))


def test_ica_follows_a_rotation_of_non_gaussian_columns() -> None:
    rng = np.random.default_rng(0)
    x = rng.laplace(size=(1000, 4))
    y = x @ np.linalg.qr(rng.standard_normal((4, 4)))[0]
    assert AlignmentRegressor("ica").fit(x, y).score(x, y) > 0.99
