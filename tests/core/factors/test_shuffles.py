import numpy as np
import pytest

from repalign.core.factors.encoding import encode_factors
from repalign.core.factors.judging import half_draws, score_draws, shuffled_draws
from repalign.core.factors.scores import ScoreSettings, score_factors
from repalign.core.factors.shuffles import plan_shuffle
from tests.core.factors.judging import judged

UNEQUAL = np.repeat(np.arange(8), [10, 9, 9, 8, 5, 5, 4, 1])
MCC = ScoreSettings(groups=("mcc",))


def by_group(member: np.ndarray, seed: int = 0):
    """Factors that are constant in groups, each group its own."""
    size = np.random.default_rng(seed).normal(size=member.max() + 1)
    return encode_factors({"size": size[member], "parity": member % 2}, kinds={"size": "discrete"})


def test_without_groups_every_row_gets_the_factors_of_another() -> None:
    factors = encode_factors({"hue": np.arange(40) % 4})
    shuffle = plan_shuffle(factors)
    expected = np.random.default_rng(3).permutation(40)
    drawn = next(shuffle.draws(1, np.random.default_rng(3)))
    assert drawn.tolist() == expected.tolist()
    assert (shuffle.scheme, shuffle.n_groups, shuffle.n_arrangements) == ("rows", 40, np.inf)


def test_factors_constant_in_groups_are_dealt_among_groups_and_no_row_is_lost() -> None:
    factors = by_group(UNEQUAL)
    shuffle = plan_shuffle(factors, UNEQUAL)
    assert shuffle.scheme == "groups"
    assert shuffle.kept.tolist() == list(range(UNEQUAL.size))
    for rows in shuffle.draws(5, np.random.default_rng(0)):
        values = factors.values[rows, 0]
        first = {group: values[group == UNEQUAL] for group in range(8)}
        assert all(np.ptp(each) == 0 for each in first.values())
        assert sorted(each[0] for each in first.values()) == sorted(set(factors.values[:, 0]))


def test_factors_that_vary_in_groups_move_with_whole_groups_of_about_their_size() -> None:
    factors = encode_factors({"x": np.arange(UNEQUAL.size) % 7})
    shuffle = plan_shuffle(factors, UNEQUAL)
    assert shuffle.scheme == "runs of groups"
    assert shuffle.kept.size < UNEQUAL.size
    for rows in shuffle.draws(5, np.random.default_rng(0)):
        assert sorted(rows) == shuffle.kept.tolist()
        for group in np.unique(UNEQUAL[shuffle.kept]):
            taken = rows[UNEQUAL[shuffle.kept] == group]
            # The rows of one other group, in their order.
            assert np.unique(UNEQUAL[taken]).size == 1
            assert (np.diff(taken) > 0).all()


def test_arrangements_that_cannot_be_told_apart_count_once() -> None:
    member = np.repeat(np.arange(8), 5)
    factors = encode_factors({"side": np.array([0, 0, 0, 0, 1, 1, 1, 1])[member]})
    shuffle = plan_shuffle(factors, member)
    assert shuffle.n_arrangements == 70
    assert not shuffle.is_sufficient
    assert shuffle.smallest_p(999) == pytest.approx(1 / 70)
    assert shuffle.smallest_p(19) == pytest.approx(1 / 20)


def test_too_few_arrangements_give_a_null_and_no_p_value() -> None:
    member = np.repeat(np.arange(4), 10)
    factors = encode_factors({"side": member % 2})
    latents = np.random.default_rng(0).normal(size=(40, 2))
    score = judged(factors, latents, MCC, groups=member, n_null=9)["MCC-pearson"]
    assert score.null is not None
    assert score.p_value is None


def test_what_is_observed_is_scored_again_on_the_rows_that_are_shuffled() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=UNEQUAL.size)
    factors = encode_factors({"x": x, "y": rng.normal(size=UNEQUAL.size)})
    latents = np.column_stack([x, rng.normal(size=UNEQUAL.size)])
    found = score_factors(factors, latents, MCC)
    shuffle = plan_shuffle(factors, UNEQUAL)
    observed = score_draws(shuffled_draws(shuffle, 2, 0), factors, latents, MCC)[0, 0]
    kept = score_factors(factors.deal(shuffle.kept), latents[shuffle.kept], MCC)
    assert observed == kept.value("MCC-pearson")
    assert observed != found.value("MCC-pearson")


def test_half_samples_hold_whole_groups() -> None:
    member = np.repeat(np.arange(10), 6)
    factors = by_group(member)
    rng = np.random.default_rng(0)
    latents = factors.values + 5.0 * rng.normal(size=(10, 2))[member]
    together, apart = (
        score_draws(half_draws(groups, 40, 0), factors, latents, MCC)[:, 0]
        for groups in (member, np.arange(60))
    )
    # 60 rows say no more than their 10 groups.
    assert np.std(together) > 1.5 * np.std(apart)
    assert half_draws(member % 3, 5, 0).rows == ()


def test_half_samples_vary_as_half_of_the_rows_do() -> None:
    rng = np.random.default_rng(0)
    size = rng.normal(size=400)
    latents = (size + rng.normal(size=400))[:, None]
    factors = encode_factors({"size": size}, kinds={"size": "continuous"})
    values = score_draws(half_draws(np.arange(400), 80, 0), factors, latents, MCC)[:, 0]
    r = np.corrcoef(size, latents[:, 0])[0, 1]
    # of n/2 among n rows, the variance of a correlation is (1 − r²)² (2/n) (1 − 1/2)
    assert np.std(values) == pytest.approx((1 - r**2) / np.sqrt(400), rel=0.3)


@pytest.mark.slow
@pytest.mark.parametrize("is_constant", [True, False])
def test_chance_in_groups_is_significant_as_often_as_it_should(*, is_constant: bool) -> None:
    """400 independent pairs, groups of 20, ICC .8: rows shuffled alone reject in nearly all."""
    member = np.repeat(np.arange(15), 20)
    rejected = {"groups": 0, "rows": 0}
    for trial in range(400):
        rng = np.random.default_rng(trial)
        latents = rng.normal(size=(15, 3))[member] + 0.5 * rng.normal(size=(300, 3))
        values = rng.normal(size=(15, 2))[member]
        if not is_constant:
            values = values + 0.5 * rng.normal(size=(300, 2))
        kinds = {"a": "continuous", "b": "continuous"}
        factors = encode_factors({"a": values[:, 0], "b": values[:, 1]}, kinds=kinds)
        for name, groups in (("groups", member), ("rows", None)):
            score = judged(factors, latents, MCC, groups=groups, n_null=19)["MCC-pearson"]
            rejected[name] += score.p_value <= 0.05 + 1e-9
    # 99 % of a binomial of 400 draws at .05.
    assert 10 <= rejected["groups"] <= 32
    assert rejected["rows"] > 300
