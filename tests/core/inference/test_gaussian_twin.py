import numpy as np
import pytest
from scipy.stats import kurtosis

from repalign.core.ica.fit import fit_ica
from repalign.core.inference.gaussian_twin import TwinLaw, TwinNull
from repalign.core.maps.fitting import IcaPair, MapInputs, fit_maps
from repalign.core.moments import pair_moments
from repalign.core.rows import ArrayRows


def test_a_twin_has_the_means_and_covariances_but_no_kurtosis() -> None:
    rng = np.random.default_rng(0)
    x = rng.laplace(size=(5000, 3)) * [1, 2, 3] + 7
    y = x[:, :2] @ rng.standard_normal((2, 2)) + 0.1 * rng.laplace(size=(5000, 2))
    law = TwinLaw.of(x, y)
    both, twins = np.hstack([x, y]), np.hstack(law.draw(0, seed=0))
    np.testing.assert_allclose(twins.mean(0), both.mean(0), rtol=1e-12)
    np.testing.assert_allclose(np.cov(twins.T), np.cov(both.T), rtol=1e-9)
    assert np.abs(kurtosis(twins)).max() < 0.3
    assert kurtosis(both).min() > 1
    others = (law.draw(1, seed=0), law.draw(0, seed=1), (x, y))
    assert not any(np.allclose(twins, np.hstack(other)) for other in others)


def test_neighbouring_seeds_have_no_twin_in_common() -> None:
    law = TwinLaw.of(*(np.random.default_rng(seed).standard_normal((9, 2)) for seed in (0, 1)))
    drawn = [law.draw(number, seed=seed)[0] for seed in range(3) for number in range(3)]
    assert len({rows.tobytes() for rows in drawn}) == 9


@pytest.mark.parametrize("sizes", [[5] * 40, [60, 30, 20, 5, 1, 1]])
def test_a_twin_keeps_the_scatter_within_groups_and_of_equal_ones_that_among_them(
    sizes: list[int],
) -> None:
    rng = np.random.default_rng(0)
    groups = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    shared = rng.standard_normal((len(sizes), 4))[groups]
    x = shared + rng.standard_normal((groups.size, 4))
    y = shared[:, :3] - rng.standard_normal((groups.size, 3))

    def scatters(rows: np.ndarray) -> list[np.ndarray]:
        means = np.stack([rows[groups == group].mean(0) for group in range(len(sizes))])[groups]
        return [part.T @ part for part in (rows - means, means - rows.mean(0))]

    twin, pair = np.hstack(TwinLaw.of(x, y, groups * 7).draw(0, seed=0)), np.hstack([x, y])
    np.testing.assert_allclose(twin.mean(0), pair.mean(0), rtol=1e-12)
    parts = slice(None) if len(set(sizes)) == 1 else slice(1)
    for found, wanted in zip(scatters(twin)[parts], scatters(pair)[parts], strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-9 * np.abs(wanted).max())


SIZES = np.maximum(1, 130 / np.arange(1, 41)).astype(int)  # the largest has a third of the rows
LABELS = np.repeat(np.arange(SIZES.size), SIZES)


def unequal_pair(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian rows that are four fifths those of their group, and a copy with noise of its own."""
    rng = np.random.default_rng(seed)
    shared = rng.standard_normal((SIZES.size, 3))[LABELS]
    x = np.sqrt(0.8) * shared + np.sqrt(0.2) * rng.standard_normal((LABELS.size, 3))
    return x, x + 0.1 * rng.standard_normal(x.shape)


def largest_group(rows: np.ndarray) -> float:
    """How far the largest group lies from all rows, in their standard deviation."""
    standard = (rows - rows.mean(0)) / rows.std(0)
    return float(np.linalg.norm(standard[LABELS == 0].mean(0)))


def test_a_pair_of_very_unequal_groups_lies_among_its_twins_as_likely_above_as_they() -> None:
    above = below = 0
    for seed in range(300):
        x, y = unequal_pair(seed)
        law = TwinLaw.of(x, y, LABELS)
        twins = [largest_group(law.draw(number, seed=seed)[0]) for number in range(4)]
        above += largest_group(x) > max(twins)
        below += largest_group(x) < min(twins)
    # 99 % of chance about a fifth
    assert 0.14 < above / 300 < 0.26
    assert 0.14 < below / 300 < 0.26


def test_what_has_no_share_in_groups_has_none_in_twins() -> None:
    """Noise of the target alone is not of groups, however much of the rest is."""
    x, y = unequal_pair(0)
    twin_x, twin_y = TwinLaw.of(x, y, LABELS).draw(0, seed=0)
    for noise in (y - x, twin_y - twin_x):
        assert np.linalg.norm(noise[LABELS == 0].mean(0)) < 4 * 0.1 * np.sqrt(3 / SIZES[0])


def test_fewer_groups_than_columns_have_finite_twins() -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(3), [30, 5, 1])
    x = rng.standard_normal((3, 8))[labels] + rng.standard_normal((36, 8))
    twin = np.hstack(TwinLaw.of(x, x[:, :5], labels).draw(0, seed=0))
    assert np.isfinite(twin).all()
    np.testing.assert_allclose(twin[:, :5], twin[:, 8:], atol=1e-9)
    constant = rng.standard_normal((3, 8))[labels]
    twin = np.hstack(TwinLaw.of(constant, constant, labels).draw(0, seed=0))
    assert np.ptp(twin[labels == 0], axis=0).max() < 1e-9
    assert np.ptp(twin, axis=0).min() > 0.01


def test_a_rank_deficient_pair_has_a_twin_of_the_same_rank() -> None:
    x = np.random.default_rng(0).standard_normal((50, 1)) @ np.ones((1, 3))
    twin_x, twin_y = TwinLaw.of(x, 2 * x).draw(0, seed=1)
    np.testing.assert_allclose(twin_y, 2 * twin_x, atol=1e-12)


def test_fewer_rows_than_columns_have_a_twin_with_their_scatter() -> None:
    x, y = (np.random.default_rng(seed).standard_normal((20, 30)) for seed in (0, 1))
    twin = np.hstack(TwinLaw.of(x, y).draw(0, seed=0))
    np.testing.assert_allclose(np.cov(twin.T), np.cov(np.hstack([x, y]).T), atol=1e-12)


def efficiency_of_disjoint_halves(source: np.ndarray, target: np.ndarray) -> float:
    """ICA of the source on the first half of the rows, of the target on the second."""
    half = len(source) // 2
    (moments,) = pair_moments(ArrayRows(source), ArrayRows(target))
    fits = [
        fit_ica(ArrayRows(rows), mean=rows.mean(0), covariance=np.cov(rows.T, bias=True))
        for rows in (source[:half], target[half:])
    ]
    maps = fit_maps(("permutation", "rigid", "ica"), MapInputs(moments, IcaPair(*fits))).by_name
    permutation, rigid, ica = (judged.mean_error(source, target) for judged in maps.values())
    return (permutation - ica) / (permutation - rigid)


def test_a_twin_that_goes_through_the_procedure_is_where_gaussian_rows_are() -> None:
    mixing = np.linalg.qr(np.random.default_rng(9).standard_normal((40, 40)))[0]
    observed, twins = [], []
    for seed in range(4):
        x = np.random.default_rng(seed).standard_normal((150, 40))
        y = x @ mixing
        observed.append(efficiency_of_disjoint_halves(x, y))
        twins.append(efficiency_of_disjoint_halves(*TwinLaw.of(x, y).draw(0, seed=seed)))
    # Whitened by the whole twin's moments, twins were higher by a quarter at this size.
    assert np.mean(twins) == pytest.approx(np.mean(observed), abs=0.1)


def test_the_p_value_of_twins_counts_those_as_large() -> None:
    null = TwinNull((0.1, 0.2, 0.3))
    assert null.p_value(0.25) == 0.5
    assert null.p_value(0.2) == 0.75
    assert null.mean == pytest.approx(0.2)
    assert null.spread == pytest.approx(0.1)
    assert np.isnan(null.p_value(np.nan))
    assert np.isnan([TwinNull(()).p_value(0.1), TwinNull(()).mean, TwinNull((1.0,)).spread]).all()
