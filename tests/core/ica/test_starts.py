import numpy as np
import pytest

from repalign.core.ica.components import (
    AGREEMENT,
    best_starts,
    start_agreement,
)
from repalign.core.ica.fit import IcaFit, fit_ica, prepare
from repalign.core.ica.settings import IcaSettings
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
