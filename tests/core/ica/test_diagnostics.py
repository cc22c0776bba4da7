import numpy as np
import pytest

from repalign.core.ica.diagnostics import gaussian_excess
from repalign.core.ica.fit import IcaFit, fit_ica
from repalign.core.rows import ArrayRows


def fit(values: np.ndarray) -> IcaFit:
    covariance = np.cov(values.T, bias=True)
    return fit_ica(ArrayRows(values), mean=values.mean(0), covariance=covariance)


@pytest.mark.parametrize(("n", "d"), [(60, 6), (60, 25), (40, 36), (26, 25), (15, 40)])
def test_gaussian_rows_have_next_to_no_identifiable_components(n: int, d: int) -> None:
    counts = []
    for seed in range(5):
        found = fit(np.random.default_rng(seed).standard_normal((n, d)))
        assert found.n_identifiable is not None
        counts.append(found.n_identifiable)
    assert sum(counts) <= 1


def test_rows_as_many_as_directions_identify_nothing_whatever_they_hold() -> None:
    # n points in n − 1 directions, made white, are the corners of a regular simplex
    assert fit(np.random.default_rng(0).standard_t(2, (30, 60))).n_identifiable == 0


def test_planted_sources_in_a_hundred_rows_are_identifiable() -> None:
    assert fit(np.random.default_rng(0).standard_gamma(0.3, (100, 3))).n_identifiable == 3


def test_the_law_is_the_excess_that_was_measured() -> None:
    # largest excess of several fits, by components and rows
    for rank, n_rows, largest in [
        (100, 10_000, 0.0130),
        (100, 500, 0.0823),
        (100, 118, 0.2541),
        (50, 5000, 0.0128),
        (25, 71, 0.1397),
        (12, 400, 0.0297),
        (6, 3000, 0.0067),
        (1, 500, 0.0096),
    ]:
        assert largest == pytest.approx(gaussian_excess(rank, n_rows), rel=0.2)
