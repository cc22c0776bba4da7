import numpy as np
import pytest
from numpy.testing import assert_allclose

from repalign.core.affine import MappedRows
from repalign.core.maps import MAP_KINDS, fit_map
from repalign.core.row_errors import row_errors
from repalign.core.rows import ArrayRows
from repalign.exceptions import InputError
from tests.core.paired_data import fixture_a, moments_of

KINDS = [kind.name for kind in MAP_KINDS if not kind.needs_ica]


@pytest.mark.parametrize("memory_bytes", [60_000, 2**31])
def test_errors_are_the_norms_of_the_residuals(memory_bytes: int) -> None:
    x, y = fixture_a()
    moments = moments_of(x, y)
    maps = [fit_map(kind, moments) for kind in KINDS]
    errors = row_errors(ArrayRows(x), ArrayRows(y), maps, memory_bytes=memory_bytes)
    assert errors.shape == (len(maps), len(x))
    for fitted, found in zip(maps, errors, strict=True):
        expected = np.linalg.norm(fitted.apply(x) - y, axis=1)
        assert_allclose(found, expected, rtol=1e-11, err_msg=fitted.kind)


def test_a_single_sparse_map_needs_no_product() -> None:
    x, y = fixture_a()
    fitted = fit_map("permutation", moments_of(x, y))
    (errors,) = row_errors(ArrayRows(x), ArrayRows(y), [fitted])
    assert_allclose(errors, np.linalg.norm(fitted.apply(x) - y, axis=1), rtol=1e-12)


def test_a_map_of_other_widths_is_refused() -> None:
    x, y = fixture_a()
    fitted = fit_map("rigid", moments_of(x, y))
    with pytest.raises(InputError, match=r"6.* 5"):
        row_errors(ArrayRows(x[:, :5]), ArrayRows(y), [fitted])


def test_rows_that_are_not_finite_are_refused() -> None:
    x, y = fixture_a()
    fitted = fit_map("rigid", moments_of(x, y))
    y[10, 1] = np.inf
    with pytest.raises(InputError, match=r"target.* inf.* 10.* 1"):
        row_errors(ArrayRows(x), ArrayRows(y), [fitted])


def test_rows_can_be_seen_through_a_map() -> None:
    x, y = fixture_a()
    fitted = fit_map("linear", moments_of(x, y))
    seen = MappedRows(ArrayRows(x), fitted)
    assert seen.shape == y.shape
    assert_allclose(seen.read(3, 9), fitted.apply(x)[3:9])
    assert_allclose(seen.take(np.array([1, 5])), fitted.apply(x)[[1, 5]])
