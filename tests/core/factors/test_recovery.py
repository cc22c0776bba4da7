import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from repalign.core.factors.recovery import (
    absolute_correlations,
    linear_r2,
    linear_r2_held_out,
    matched_correlations,
    mean_correlation,
)


@pytest.mark.parametrize("name", ["identity", "rotated", "noise"])
def test_mean_correlations_agree_with_the_reference(name: str, case, oracles) -> None:
    factors, latents = case(name)
    for correlation in ("pearson", "spearman"):
        score = mean_correlation(factors.values, latents, correlation)
        assert score.value == pytest.approx(oracles[name][f"clica_mcc_{correlation}"], abs=2e-6)


@pytest.mark.parametrize(
    "name", ["identity", "rotated", "inactive", "noise", "discrete", "exact_identity"]
)
def test_linear_r2_agrees_with_the_reference(name: str, case, oracles) -> None:
    factors, latents = case(name)
    oracle = oracles[name]
    assert linear_r2(factors.values, latents).value == pytest.approx(
        oracle["clica_linear_r2_insample"], abs=2e-6
    )
    assert linear_r2_held_out(factors.values, latents).value == pytest.approx(
        oracle["clica_linear_r2_split_half"], abs=2e-6
    )


@given(
    st.permutations(range(4)), st.lists(st.sampled_from([-3.0, 0.5, 2.0]), min_size=4, max_size=4)
)
def test_mcc_sees_through_order_sign_scale_and_offset(order, scales) -> None:
    values = np.random.default_rng(0).laplace(size=(50, 4))
    latents = values[:, order] * np.array(scales) + 7.0
    assert mean_correlation(values, latents).value == pytest.approx(1.0, abs=1e-12)
    _, factors, columns = matched_correlations(values, latents)
    assert [order[column] for column in columns] == factors.tolist()


def test_spearman_sees_through_monotone_maps_where_pearson_does_not() -> None:
    values = np.random.default_rng(0).normal(size=(200, 2))
    latents = np.exp(3 * values)
    assert mean_correlation(values, latents, "spearman").value == pytest.approx(1.0)
    assert mean_correlation(values, latents, "pearson").value < 0.9


def test_a_factor_without_a_latent_counts_as_zero() -> None:
    values = np.random.default_rng(0).normal(size=(50, 4))
    assert mean_correlation(values, values[:, :3]).value == pytest.approx(0.75)
    wide = np.column_stack([values, values**2])
    assert mean_correlation(values, wide).value == pytest.approx(1.0)


def test_constant_columns_correlate_with_nothing() -> None:
    values = np.random.default_rng(0).normal(size=(50, 2))
    latents = np.column_stack([values[:, 0], np.full(50, 0.1)])
    for correlation in ("pearson", "spearman"):
        table = absolute_correlations(values, latents, correlation)
        assert_allclose(table[:, 1], 0.0)


def test_too_few_rows_are_undefined_with_a_reason() -> None:
    rng = np.random.default_rng(0)
    reason = linear_r2(rng.normal(size=(5, 1)), rng.normal(size=(5, 6))).reason
    assert re.search(r"\b5 .*\b6 ", reason)
    assert "3" in linear_r2_held_out(rng.normal(size=(3, 1)), rng.normal(size=(3, 1))).reason
    assert "two rows" in mean_correlation(np.ones((1, 1)), np.ones((1, 1))).reason


def test_a_factor_that_is_constant_in_the_second_half_is_undefined() -> None:
    values = np.r_[np.arange(10.0), np.zeros(10)][:, None]
    latents = np.random.default_rng(0).normal(size=(20, 1))
    assert "constant" in linear_r2_held_out(values, latents).reason
