import numpy as np
import pytest
from numpy.testing import assert_allclose

from repalign.core.similarity import measures
from repalign.exceptions import InputError
from tests.core.paired_data import fixture_a, moments_of
from tests.core.similarity import oracles

TOLERANCE = 2e-6


@pytest.mark.parametrize("case", oracles.CASES)
def test_measures_agree_with_the_oracles(case: str) -> None:
    expected = oracles.CASES[case]
    moments = moments_of(*oracles.case(case))
    actual = {
        "linear_cka": measures.linear_cka(moments),
        "mean_cca_all_coefs": measures.mean_cca(moments),
        "pwcca_published_formula_weights_from_A": measures.pwcca(moments),
        "pwcca_published_formula_weights_from_B": measures.pwcca(moments.swapped()),
        "clica_linear_r2_z_is_A": measures.mean_r_squared(moments.swapped()),
    }
    for k in (2, 4, 8):
        actual[f"roeder_svcca_top{k}_standardised_mean"] = measures.svcca(
            moments, components=k, standardise=True
        )
        actual[f"svcca_top{k}_centred_only_mean"] = measures.svcca(moments, components=k)
    for name, value in actual.items():
        assert_allclose(value, expected[name], atol=TOLERANCE, err_msg=name)


def test_measures_agree_with_other_packages_on_the_rotated_pair() -> None:
    moments = moments_of(*fixture_a())
    assert_allclose(measures.procrustes_angle(moments), 0.1243987385387713, rtol=1e-10)
    assert_allclose(
        measures.cca_coefficients(moments),
        [0.996527, 0.995387, 0.993317, 0.98833, 0.972516, 0.904948],
        atol=1e-6,
    )
    assert_allclose(measures.pooled_r_squared(moments), 0.984754912689228, rtol=1e-12)
    assert_allclose(measures.mean_r_squared(moments), 0.979858114635130, rtol=1e-12)
    assert_allclose(measures.linear_cka(moments), 0.990024027814659, rtol=1e-12)


@pytest.mark.parametrize("name", sorted(measures.MEASURES))
def test_equal_rows_are_as_close_as_can_be(name: str) -> None:
    x, _ = fixture_a()
    measure = measures.MEASURES[name]
    best = 1.0 if measure.closer == "higher" else 0.0
    # arccos loses half of the digits near 1
    assert_allclose(measure.value(moments_of(x, x)), best, atol=1e-7)


@pytest.mark.parametrize("name", sorted(measures.MEASURES))
def test_direction_matters_only_where_it_is_said(name: str) -> None:
    moments = moments_of(*fixture_a())
    measure = measures.MEASURES[name]
    same = abs(measure.value(moments) - measure.value(moments.swapped())) < 1e-9
    assert same == measure.is_symmetric


@pytest.mark.parametrize("name", sorted(measures.MEASURES))
def test_rows_that_do_not_vary_are_as_far_as_can_be(name: str) -> None:
    x, _ = fixture_a()
    measure = measures.MEASURES[name]
    worst = 0.0 if measure.closer == "higher" else np.pi / 2
    for pair in ((x, np.ones((400, 3))), (np.ones((400, 3)), x), (np.ones((400, 2)),) * 2):
        assert_allclose(measure.value(moments_of(*pair)), worst, atol=1e-12)


def test_an_svcca_of_no_components_is_refused() -> None:
    with pytest.raises(InputError, match="SVCCA of 0 components was asked for"):
        measures.svcca(moments_of(*fixture_a()), components=0)
