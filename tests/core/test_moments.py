import re
from contextlib import nullcontext

import numpy as np
import pytest
from numpy.testing import assert_allclose

from repalign.core.moments import (
    PairMoments,
    cross_moments,
    leave_one_out,
    merge_all,
    pair_moments,
    space_moments,
)
from repalign.core.rows import ArrayRows
from repalign.exceptions import InputError
from tests.core.paired_data import moments_of


def pair(n: int = 300, p: int = 5, q: int = 3, offset: float = 0.0) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, p)) + offset
    return x, x[:, :q] * 2 + rng.standard_normal((n, q)) - offset


def assert_same(actual: PairMoments, expected: PairMoments, rtol: float = 1e-12) -> None:
    assert actual.n == expected.n
    for name in ("mean_x", "mean_y", "sxx", "sxy", "syy"):
        wanted = getattr(expected, name)
        assert_allclose(
            getattr(actual, name), wanted, rtol=rtol, atol=rtol * np.abs(wanted).max(), err_msg=name
        )


def test_moments_are_means_and_centred_scatter_sums() -> None:
    x, y = pair()
    moments = moments_of(x, y)
    xc, yc = x - x.mean(0), y - y.mean(0)
    expected = PairMoments(len(x), x.mean(0), y.mean(0), xc.T @ xc, xc.T @ yc, yc.T @ yc)
    assert_same(moments, expected)


@pytest.mark.parametrize("memory_bytes", [20_000, 100_000])
def test_block_size_does_not_change_the_moments(memory_bytes: int) -> None:
    x, y = pair()
    (blocked,) = pair_moments(ArrayRows(x), ArrayRows(y), memory_bytes=memory_bytes)
    assert_same(blocked, moments_of(x, y))


@pytest.mark.parametrize("n_parts", [4, 12])
def test_parts_are_the_moments_of_their_rows_and_merge_to_the_whole(n_parts: int) -> None:
    x, y = pair()
    labels = np.random.default_rng(1).integers(0, n_parts, len(x))
    parts = pair_moments(ArrayRows(x), ArrayRows(y), part_of_row=labels, n_parts=n_parts)
    for label, part in enumerate(parts):
        assert_same(part, moments_of(x[labels == label], y[labels == label]))
    assert_same(merge_all(parts), moments_of(x, y))


def test_leaving_out_and_subtracting_agree_with_fitting_the_rest() -> None:
    x, y = pair()
    labels = np.arange(len(x)) % 3
    parts = pair_moments(ArrayRows(x), ArrayRows(y), part_of_row=labels, n_parts=3)
    whole = merge_all(parts)
    for label, rest in enumerate(leave_one_out(parts)):
        expected = moments_of(x[labels != label], y[labels != label])
        assert_same(rest, expected)
        assert_same(whole.subtract(parts[label]), expected)


def test_a_large_common_offset_costs_no_digits() -> None:
    x, y = pair(offset=0.0)
    shifted, plain = moments_of(x + 1e6, y - 1e6), moments_of(x, y)
    # The rows themselves lose 2^-53 * 1e6 of each value; nothing more may be lost.
    assert_allclose(shifted.sxx, plain.sxx, atol=1e-9 * np.abs(plain.sxx).max())
    assert_allclose(shifted.sxy, plain.sxy, atol=1e-9 * np.abs(plain.sxy).max())


def test_an_empty_part_is_neutral() -> None:
    x, y = pair()
    labels = np.zeros(len(x), dtype=np.int64)
    parts = pair_moments(ArrayRows(x), ArrayRows(y), part_of_row=labels, n_parts=2)
    assert parts[1].n == 0
    assert_same(parts[1] + parts[0], parts[0])


def test_swapping_gives_the_opposite_direction() -> None:
    x, y = pair()
    assert_same(moments_of(x, y).swapped(), moments_of(y, x))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e200])
def test_the_first_row_that_is_not_finite_is_named(bad: float) -> None:
    x, y = pair()
    y[217, 2] = bad
    with pytest.raises(InputError, match=r"target.* 217.* 2"):
        pair_moments(ArrayRows(x), ArrayRows(y), memory_bytes=20_000)


def test_unequal_numbers_of_rows_are_refused() -> None:
    x, y = pair()
    with pytest.raises(InputError, match=r"300.* 299"):
        pair_moments(ArrayRows(x), ArrayRows(y[1:]))


def test_part_numbers_out_of_range_are_refused() -> None:
    x, y = pair()
    with pytest.raises(InputError, match=r"0 to 2.* 0 to 1"):
        pair_moments(ArrayRows(x), ArrayRows(y), part_of_row=np.arange(300) % 3, n_parts=2)
    with pytest.raises(InputError, match="300 rows"):
        pair_moments(ArrayRows(x), ArrayRows(y), part_of_row=np.zeros(5, np.int64), n_parts=2)
    with pytest.raises(InputError, match="0 parts"):
        pair_moments(ArrayRows(x), ArrayRows(y), n_parts=0)


def test_taking_away_more_rows_than_there_are_is_refused() -> None:
    x, y = pair()
    with pytest.raises(InputError, match=r"300.* 200"):
        moments_of(x[:200], y[:200]).subtract(moments_of(x, y))


def test_leaving_out_the_only_part_is_refused() -> None:
    with pytest.raises(InputError, match="two parts"):
        leave_one_out((moments_of(*pair()),))


def test_merging_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="one part"):
        merge_all(())


def test_a_cap_that_cannot_hold_the_statistics_is_refused() -> None:
    x, y = pair()
    with pytest.raises(InputError, match="memory"):
        pair_moments(ArrayRows(x), ArrayRows(y), memory_bytes=1000)


def test_a_refusal_says_how_many_columns_fit() -> None:
    wide = ArrayRows(np.zeros((4, 512), dtype=np.float32))
    with pytest.raises(InputError, match="columns") as refusal:
        pair_moments(wide, wide, memory_bytes=2**20)
    fitting = int(re.search(r"(\d+) fit", str(refusal.value))[1])
    assert 100 < fitting < 512
    for columns, is_refused in ((fitting, False), (fitting + 3, True)):
        rows = ArrayRows(np.ones((4, columns), dtype=np.float32))
        with pytest.raises(InputError) if is_refused else nullcontext():
            pair_moments(rows, rows, memory_bytes=2**20)


def test_progress_reaches_the_number_of_rows() -> None:
    x, y = pair()
    seen: list[tuple[int, int]] = []
    pair_moments(
        ArrayRows(x),
        ArrayRows(y),
        memory_bytes=20_000,
        on_progress=lambda done, total: seen.append((done, total)),
    )
    assert len(seen) > 1
    assert seen[-1] == (300, 300)


def test_the_inputs_are_not_changed() -> None:
    x, y = pair()
    before = x.copy(), y.copy()
    moments_of(x, y)
    assert_allclose(x, before[0], rtol=0)
    assert_allclose(y, before[1], rtol=0)


@pytest.mark.parametrize("widths", [(4, 4), (3, 5)])
def test_a_pair_is_its_two_spaces_and_their_cross_products(widths: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    # several blocks
    x, y = (ArrayRows(rng.standard_normal((400, width)) + 7) for width in widths)
    labels = rng.integers(0, 3, 400)
    how = {"memory_bytes": 40_000}
    how |= {"part_of_row": labels, "n_parts": 3}
    known = space_moments(x, **how), space_moments(y, **how)
    whole = pair_moments(x, y, **how)
    for found, expected in zip(cross_moments(x, y, known, **how), whole, strict=True):
        for field in ("n", "epsilon_x", "epsilon_y"):
            assert getattr(found, field) == getattr(expected, field)
        # blocks of equal widths are the same, and so is every digit
        assert_same(found, expected, rtol=0 if widths[0] == widths[1] else 1e-12)


def test_a_space_alone_adds_up_and_leaves_parts_out_as_a_pair_does() -> None:
    x = np.random.default_rng(0).standard_normal((90, 3))
    parts = space_moments(ArrayRows(x), part_of_row=np.arange(90) % 3, n_parts=3)
    rest = leave_one_out(parts)[1]
    kept = x[np.arange(90) % 3 != 1]
    assert_allclose(rest.sxx / rest.n, np.cov(kept.T, bias=True), atol=1e-12)
    assert_allclose(merge_all(parts).mean_x, x.mean(0), atol=1e-12)
