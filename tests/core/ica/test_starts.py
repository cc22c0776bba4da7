import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import t as student

from repalign.core.ica.fit import IcaFit, fit_ica, prepare
from repalign.core.ica.settings import IcaSettings
from repalign.core.ica.starts import (
    AGREEMENT,
    best_starts,
    over_starts,
    start_agreement,
)
from repalign.core.rows import ArrayRows


def starts(values: np.ndarray, seeds: list[int], **settings: object) -> list[IcaFit]:
    prepared = prepare(
        ArrayRows(values),
        mean=values.mean(0),
        covariance=np.cov(values.T, bias=True),
        settings=IcaSettings(**settings),
    )
    return [prepared.fit(seed) for seed in seeds]


@pytest.mark.parametrize("n_fit_rows", [None, 300])
def test_starts_on_shared_rows_are_the_fits_they_would_be_alone(n_fit_rows: int | None) -> None:
    values = np.random.default_rng(0).standard_normal((500, 6))
    together = starts(values, [3, 8], n_fit_rows=n_fit_rows)
    alone = starts(values, [8], n_fit_rows=n_fit_rows)
    assert np.array_equal(together[1].unmixing, alone[0].unmixing)
    assert [fit.settings.seed for fit in together] == [3, 8]
    if n_fit_rows is None:
        single = fit_ica(
            ArrayRows(values),
            mean=values.mean(0),
            covariance=np.cov(values.T, bias=True),
            settings=IcaSettings(seed=8),
        )
        assert np.array_equal(single.unmixing, together[1].unmixing)


def test_starts_agree_where_there_are_sources_and_not_where_there_are_none() -> None:
    rng = np.random.default_rng(0)
    for values, is_found in (
        (rng.laplace(size=(2000, 6)), True),
        (rng.standard_normal((2000, 6)), False),
    ):
        agreement = start_agreement(starts(values, [0, 1, 2]), np.cov(values.T, bias=True))
        assert agreement is not None
        assert (agreement >= AGREEMENT) == is_found


def test_one_start_has_no_agreement() -> None:
    values = np.random.default_rng(0).laplace(size=(200, 2))
    assert start_agreement(starts(values, [0]), np.cov(values.T)) is None


def test_the_best_contrasts_are_kept_best_first() -> None:
    values = np.random.default_rng(0).standard_normal((300, 6))
    fits = starts(values, [0, 1, 2, 3])
    kept = best_starts(fits, 2)
    assert [fit.contrast_value for fit in kept] == sorted(fit.contrast_value for fit in fits)[:2]


def test_equal_starts_have_no_spread_and_one_start_an_unknown_one() -> None:
    assert over_starts(np.full((3, 3), 0.4)).half_width == 0
    single = over_starts(np.array([[0.4]]))
    assert (single.value, single.half_width) == (0.4, None)


def test_spread_on_one_side_is_that_of_a_mean_of_its_starts() -> None:
    values = np.array([0.1, 0.2, 0.6])
    found = over_starts(np.repeat(values[:, None], 3, axis=1))
    half = student.ppf(0.975, 2) * np.sqrt(2 * values.var(ddof=1) / 3)
    assert_allclose([found.value, found.half_width], [values.mean(), half])


def test_another_run_of_starts_lies_within_the_half_width() -> None:
    def run(seed: int, k: int = 3):
        rng = np.random.default_rng(seed)
        return over_starts(rng.normal(size=(k, 1)) + rng.normal(size=k) + np.zeros((k, k)))

    runs = [run(seed) for seed in range(800)]
    inside = [
        abs(one.value - other.value) <= one.half_width
        for one, other in zip(runs[::2], runs[1::2], strict=True)
    ]
    # 99.9 % of binomial(400, 0.95) lies between 0.912 and 0.983
    assert 0.91 <= np.mean(inside) <= 0.99
