import numpy as np
import pytest

from repalign.core.factors.encoding import encode_factors
from repalign.core.factors.judging import half_sample_scores, judge_scores, shuffled_scores
from repalign.core.factors.scores import ScoreSettings, score_factors
from repalign.core.factors.shuffles import plan_shuffle

QUICK = ScoreSettings(groups=("infomec", "mcc", "r2", "mig"))


def planted(seed: int, n_rows: int = 400):
    rng = np.random.default_rng(seed)
    sources = np.stack([rng.integers(0, 4, n_rows), rng.integers(0, 3, n_rows)], axis=1)
    factors = encode_factors({"shape": sources[:, 0], "hue": sources[:, 1]})
    return factors, sources + 0.3 * rng.normal(size=(n_rows, 2))


def test_null_is_near_chance_and_the_truth_beats_every_draw() -> None:
    factors, latents = planted(0)
    found = score_factors(factors, latents, QUICK)
    seen: list[tuple[int, int]] = []

    nulls = shuffled_scores(
        found,
        QUICK,
        plan_shuffle(factors),
        n_draws=9,
        on_progress=lambda done, total: seen.append((done, total)),
    )

    judged = {item.score.name: item for item in judge_scores(found, nulls, {})}
    assert judged["InfoE"].null < 0.05
    assert judged["MCC-pearson"].null < 0.15
    assert judged["InfoE"].p_value == pytest.approx(0.1)
    assert judged["InfoE"].low is None
    assert seen[-1] == (9, 9)


def test_noise_scores_high_on_infom_and_its_null_says_so() -> None:
    factors, _ = planted(0)
    noise = np.random.default_rng(9).normal(size=(400, 2))
    found = score_factors(factors, noise, QUICK)
    nulls = shuffled_scores(found, QUICK, plan_shuffle(factors), n_draws=19)
    judged = {item.score.name: item for item in judge_scores(found, nulls, {})}
    assert judged["InfoE"].score.value < 0.05
    assert judged["InfoM"].null > 0.3
    assert judged["InfoM"].p_value > 0.05


@pytest.mark.slow
def test_half_sample_intervals_cover_the_truth_about_as_often_as_they_say() -> None:
    settings = ScoreSettings(groups=("mcc",))
    truth = score_factors(*planted(12345, 200_000), settings).value("MCC-pearson")
    covered = 0
    for seed in range(100):
        factors, latents = planted(seed)
        found = score_factors(factors, latents, settings)
        halves = half_sample_scores(found, settings, n_draws=60)
        item = judge_scores(found, None, halves)[0]
        covered += item.low <= truth <= item.high
    # 95 % nominal; the deviation of 100 trials is 2.2 %, of 60 draws another few.
    assert covered >= 86


def test_a_half_sample_without_a_rare_class_is_passed_over() -> None:
    factors = encode_factors(
        {"rare": np.r_[np.ones(2, dtype=int), np.zeros(38, dtype=int)], "even": np.arange(40) % 2}
    )
    latents = np.random.default_rng(0).normal(size=(40, 2))
    settings = ScoreSettings(groups=("mcc",))
    halves = half_sample_scores(score_factors(factors, latents, settings), settings, n_draws=40)
    assert 0 < len(halves["MCC-pearson"]) < 40


def test_undefined_scores_stay_undefined_when_judged() -> None:
    factors = encode_factors({"only": np.arange(60) % 3})
    latents = np.random.default_rng(0).normal(size=(60, 2))
    found = score_factors(factors, latents, QUICK)
    nulls = shuffled_scores(found, QUICK, plan_shuffle(factors), n_draws=2)
    item = {i.score.name: i for i in judge_scores(found, nulls, nulls.draws)}["InfoM"]
    assert "factors" in item.score.reason
    assert (item.null, item.p_value, item.low) == (None, None, None)


def test_intervals_are_students_with_the_freedom_of_halves() -> None:
    factors, latents = planted(0)
    found = score_factors(factors, latents, ScoreSettings(groups=("mcc",)))
    halves = {"MCC-pearson": [0.4, 0.5, 0.6, 0.5]}
    value, deviation = found.value("MCC-pearson"), np.std([0.4, 0.5, 0.6, 0.5], ddof=1)
    # The quantile of Student's t from a table for 3 degrees of freedom.
    few = judge_scores(found, None, halves)[0]
    assert few.low == pytest.approx(value - 3.182 * deviation, abs=1e-4)
    assert few.high == pytest.approx(min(1.0, value + 3.182 * deviation), abs=1e-4)
    one = {"MCC-pearson": [0.4]}
    assert judge_scores(found, None, one)[0].low is None


def test_modularity_has_no_interval() -> None:
    factors, latents = planted(0)
    settings = ScoreSettings(groups=("modularity",))
    found = score_factors(factors, latents, settings)
    halves = half_sample_scores(found, settings, n_draws=4)
    scores = {judged.score.name: judged for judged in judge_scores(found, None, halves)}
    assert scores["modularity"].score.value is not None
    assert scores["modularity"].low is None
