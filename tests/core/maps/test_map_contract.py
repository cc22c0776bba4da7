"""What every map that is fitted from moments promises; a new kind joins by being registered."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from repalign.core.affine import AffineMap
from repalign.core.maps import MAP_KINDS, fit_map
from repalign.core.moments import empty_moments
from repalign.core.row_errors import row_errors
from repalign.core.rows import ArrayRows
from repalign.exceptions import InputError
from tests.core.paired_data import moments_of

KINDS = [kind.name for kind in MAP_KINDS if not kind.needs_ica]
LEARNING = [kind for kind in KINDS if kind != "mean"]
FITS_SCALE = {"mean", "permutation+scale", "rigid", "linear"}


def orthogonal(d: int, seed: int) -> np.ndarray:
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((d, d)))[0]


def signed_permutation(d: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.eye(d)[rng.permutation(d)] * rng.choice([-1.0, 1.0], d)


def planted(kind: str, n: int = 200, d: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Rows and what a map of this kind makes of them, moved."""
    rng = np.random.default_rng(7)
    x = rng.laplace(size=(n, d)) * np.arange(1, d + 1) + 3
    matrix = {
        "mean": np.zeros((d, d)),
        "identity": np.eye(d),
        "permutation": signed_permutation(d, 1),
        "permutation+scale": 2.5 * signed_permutation(d, 1),
        "rigid": 0.3 * orthogonal(d, 1),
        "rigid-noscale": orthogonal(d, 1),
        "linear": rng.standard_normal((d, d)),
    }[kind]
    return x, x @ matrix + rng.standard_normal(d)


def noisy_pair(n: int = 150, d: int = 5) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    x = rng.standard_normal((n, d)) * np.arange(1, d + 1)
    return x, x @ orthogonal(d, 2) + rng.standard_normal((n, d)) + 1


def fit(kind: str, x: np.ndarray, y: np.ndarray) -> AffineMap:
    return fit_map(kind, moments_of(x, y))


@pytest.mark.parametrize("kind", KINDS)
def test_a_planted_map_is_recovered(kind: str) -> None:
    x, y = planted(kind)
    fitted = fit(kind, x, y)
    assert fitted.kind == kind
    assert_allclose(fitted.apply(x), y, atol=1e-11)


@pytest.mark.parametrize("kind", LEARNING)
def test_equal_inputs_give_the_identity(kind: str) -> None:
    x, _ = noisy_pair()
    fitted = fit(kind, x, x)
    assert_allclose(fitted.matrix, np.eye(5), atol=1e-12)
    assert_allclose(fitted.shift, 0, atol=1e-12)


@pytest.mark.parametrize("kind", LEARNING)
def test_the_inverse_undoes_the_map(kind: str) -> None:
    x, y = noisy_pair()
    fitted = fit(kind, x, y)
    assert_allclose(fitted.inverse().apply(fitted.apply(x)), x, atol=1e-11)
    assert_allclose(fitted.apply(fitted.inverse().apply(y)), y, atol=1e-11)


def test_the_mean_has_no_inverse() -> None:
    with pytest.raises(InputError, match="no inverse"):
        fit("mean", *noisy_pair()).inverse()


@pytest.mark.parametrize("kind", KINDS)
def test_row_order_does_not_matter(kind: str) -> None:
    x, y = noisy_pair()
    order = np.random.default_rng(0).permutation(len(x))
    assert_allclose(fit(kind, x[order], y[order]).matrix, fit(kind, x, y).matrix, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_every_precision_is_taken_and_kept(kind: str, dtype: type) -> None:
    x, y = (values.astype(dtype) for values in noisy_pair())
    predicted = fit(kind, x, y).apply(x)
    assert predicted.dtype == dtype
    exact = fit(kind, x.astype(np.float64), y.astype(np.float64)).apply(x.astype(np.float64))
    assert_allclose(predicted, exact, atol=4 * np.finfo(dtype).eps * np.abs(exact).max())


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=20, deadline=None)
@given(source=st.floats(-1e4, 1e4), target=st.floats(-1e4, 1e4), factor=st.floats(1e-3, 1e3))
def test_moving_and_scaling_carry_through(
    kind: str, source: float, target: float, factor: float
) -> None:
    x, y = noisy_pair(n=60)
    source_factor = 1.0 if kind in FITS_SCALE else factor
    moved = fit(kind, source_factor * x + source, factor * y + target)
    predicted = moved.apply(source_factor * x + source)
    expected = factor * fit(kind, x, y).apply(x) + target
    assert_allclose(predicted, expected, atol=1e-9 * (factor * 10 + abs(source) + abs(target)))


DEGENERATE = {
    "rank-deficient": lambda rng: rng.standard_normal((40, 2)) @ rng.standard_normal((2, 5)),
    "fewer rows than columns": lambda rng: rng.standard_normal((3, 5)),
    "constant columns": lambda rng: rng.standard_normal((40, 5)) * [1, 0, 1, 0, 1] + 2,
    "all constant": lambda rng: np.full((10, 5), 3.0),
    "duplicate rows": lambda rng: np.repeat(rng.standard_normal((4, 5)), 10, axis=0),
    "one row": lambda rng: rng.standard_normal((1, 5)),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", sorted(DEGENERATE))
def test_degenerate_rows_give_a_finite_map_no_worse_than_promised(kind: str, case: str) -> None:
    rng = np.random.default_rng(0)
    x = DEGENERATE[case](rng)
    y = x @ orthogonal(5, 1) + 0.1 * rng.standard_normal(x.shape)
    fitted = fit(kind, x, y)
    assert np.isfinite(fitted.matrix).all()
    squared = np.sum((fitted.apply(x) - y) ** 2)
    spread = np.sum((y - y.mean(0)) ** 2)
    if kind in FITS_SCALE:
        assert squared <= spread * (1 + 1e-12) + 1e-20
    if kind == "linear" and case in {"fewer rows than columns", "one row"}:
        assert squared < 1e-20


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", sorted(DEGENERATE))
def test_degenerate_targets_give_a_finite_map(kind: str, case: str) -> None:
    rng = np.random.default_rng(0)
    y = DEGENERATE[case](rng)
    fitted = fit(kind, rng.standard_normal(y.shape), y)
    assert np.isfinite(fitted.matrix).all()
    assert np.isfinite(fitted.shift).all()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "identity"])
@pytest.mark.parametrize(("p", "q"), [(3, 6), (6, 3)])
def test_widths_may_differ(kind: str, p: int, q: int) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((80, p)), rng.standard_normal((80, q))
    fitted = fit(kind, x, y)
    assert fitted.apply(x).shape == (80, q)
    if kind.startswith("permutation"):
        assert np.count_nonzero(fitted.matrix) == 3
    if kind.startswith("rigid"):
        padded_x, padded_y = np.zeros((80, 6)), np.zeros((80, 6))
        padded_x[:, :p], padded_y[:, :q] = x, y
        padded = fit(kind, padded_x, padded_y)
        assert_allclose(fitted.matrix, padded.matrix[:p, :q], atol=1e-12)


def test_a_map_into_a_wider_space_has_a_left_inverse() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((80, 3)), rng.standard_normal((80, 6))
    fitted = fit("rigid", x, y)
    assert_allclose(fitted.inverse().apply(fitted.apply(x)), x, atol=1e-12)


def test_the_identity_refuses_other_widths() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(InputError, match=r"3.* 4"):
        fit("identity", rng.standard_normal((9, 3)), rng.standard_normal((9, 4)))


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(InputError, match=r"'affine'.* mean"):
        fit("affine", *noisy_pair())


def test_a_map_refuses_rows_of_another_width() -> None:
    fitted = fit("rigid", *noisy_pair())
    with pytest.raises(InputError, match=r"4.* 5"):
        fitted.apply(np.zeros((2, 4)))


@pytest.mark.parametrize("seed", range(20))
def test_squared_errors_are_ordered_by_the_freedom_of_the_map(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(8, 100)), int(rng.integers(1, 7))
    x = rng.standard_normal((n, d))
    y = 0.5 * x @ orthogonal(d, seed) + rng.standard_normal((n, d))
    moments = moments_of(x, y)
    maps = [fit_map(kind, moments) for kind in KINDS]
    errors = row_errors(ArrayRows(x), ArrayRows(y), maps)
    rms = {m.kind: np.sqrt(np.mean(e**2)) for m, e in zip(maps, errors, strict=True)}
    chains = [
        ("linear", "rigid", "permutation+scale", "mean"),
        ("linear", "rigid", "rigid-noscale", "permutation"),
        ("permutation+scale", "permutation", "identity"),
    ]
    for chain in chains:
        for better, worse in itertools.pairwise(chain):
            assert rms[better] <= rms[worse] * (1 + 1e-12), (better, worse)


def test_a_fit_on_no_rows_is_refused() -> None:
    with pytest.raises(InputError, match="no rows"):
        fit_map("rigid", empty_moments(3, 3))
