import numpy as np
import pytest

from repalign.core.ica import leaving_out
from repalign.core.ica.fit import fit_ica
from repalign.core.ica.leaving_out import LeftOutIca
from repalign.core.ica.settings import IcaSettings
from repalign.core.maps.permutation import match_signed
from repalign.core.moments import pair_moments
from repalign.core.rows import ArrayRows

N, DIM, N_BUNDLES = 1500, 4, 10


def fitted(x, **kwargs):
    settings = IcaSettings(tolerance=1e-6, **kwargs)
    covariance = np.cov(x.T, bias=True)
    return fit_ica(ArrayRows(x), mean=x.mean(axis=0), covariance=covariance, settings=settings)


def moments_of(x):
    return pair_moments(ArrayRows(x), ArrayRows(x))[0]


@pytest.fixture(scope="module", params=["logcosh", "exp", "cube"])
def left(request):
    rng = np.random.default_rng(3)
    sources = rng.laplace(size=(N, DIM))
    sources[:, 0] = rng.uniform(-2, 2, N)  # light tails beside heavy ones
    x = sources @ rng.normal(size=(DIM, DIM)) + 1
    bundle = rng.integers(0, N_BUNDLES, N)
    fit = fitted(x, contrast=request.param)
    return x, bundle, fit, LeftOutIca(fit, ArrayRows(x), bundle)


def apart(one, other, covariance):
    """Relative distance of two unmixings, whatever the order and signs of their components."""
    match = match_signed(one @ covariance @ other.T)
    moved = other[match.target] * match.sign[:, None]
    return np.linalg.norm(one[match.source] - moved) / np.linalg.norm(one)


def test_leaving_rows_out_is_nearly_what_a_new_search_finds(left) -> None:
    x, bundle, fit, without = left
    moved, missed = [], []
    for number in range(N_BUNDLES):
        rest = x[bundle != number]
        covariance = np.cov(rest.T, bias=True)
        again = fitted(rest, contrast=fit.settings.contrast).unmixing
        found = without.without(number, moments_of(rest)).unmixing
        moved.append(apart(again, fit.unmixing, covariance))
        missed.append(apart(again, found, covariance))
    assert np.mean(missed) < np.mean(moved) / 3


def test_components_are_white_on_the_rows_left_and_mixing_is_the_inverse(left) -> None:
    x, bundle, _, without = left
    rest = x[bundle != 2]
    found = without.without(2, moments_of(rest))
    covariance = np.cov(rest.T, bias=True)
    np.testing.assert_allclose(
        found.unmixing @ covariance @ found.unmixing.T, np.eye(DIM), atol=1e-10
    )
    np.testing.assert_allclose(found.mixing @ found.unmixing, np.eye(DIM), atol=1e-10)
    np.testing.assert_array_equal(found.mean, moments_of(rest).mean_x)


def test_a_cap_on_memory_changes_nothing(left, monkeypatch) -> None:
    x, bundle, fit, without = left
    monkeypatch.setattr(leaving_out, "SUMS_BYTES", 8 * DIM**2 * 3)
    monkeypatch.setattr(leaving_out, "_BLOCK_ROWS", 97)
    capped = LeftOutIca(fit, ArrayRows(x), bundle)
    for number in range(N_BUNDLES):
        rest = moments_of(x[bundle != number])
        one, other = without.without(number, rest), capped.without(number, rest)
        np.testing.assert_allclose(other.unmixing, one.unmixing, rtol=1e-9, atol=1e-12)


def test_of_rows_that_were_not_fitted_only_the_whitening_changes(left) -> None:
    x, bundle, fit, _ = left
    used = np.flatnonzero(bundle != 0)
    without = LeftOutIca(fit, ArrayRows(x), bundle, used)
    found = without.without(0, moments_of(x))
    np.testing.assert_allclose(found.unmixing, fit.unmixing, atol=1e-9)


def test_components_that_were_not_whitened_stay(left) -> None:
    x, bundle, *_ = left
    fit = fitted(x, solver="sklearn", whitening="none")
    rest = moments_of(x[bundle != 1])
    assert LeftOutIca(fit, ArrayRows(x), bundle).without(1, rest) is fit
