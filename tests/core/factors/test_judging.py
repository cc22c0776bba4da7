import numpy as np
import pytest

from repalign.core.factors.encoding import encode_factors
from repalign.core.factors.judging import half_draws, judge_score, score_draws
from repalign.core.factors.scores import ScoreSettings, score_factors
from repalign.core.factors.shuffles import plan_shuffle
from tests.core.factors.judging import judged

QUICK = ScoreSettings(groups=("infomec", "mcc", "r2", "mig"))


def planted(seed: int, n_rows: int = 400):
    rng = np.random.default_rng(seed)
    sources = np.stack([rng.integers(0, 4, n_rows), rng.integers(0, 3, n_rows)], axis=1)
    factors = encode_factors({"shape": sources[:, 0], "hue": sources[:, 1]})
    return factors, sources + 0.3 * rng.normal(size=(n_rows, 2))


def test_null_is_near_chance_and_the_truth_beats_every_draw() -> None:
    scores = judged(*planted(0), QUICK, n_null=9)
    assert scores["InfoE"].null < 0.05
    assert scores["MCC-pearson"].null < 0.15
    assert scores["InfoE"].p_value == pytest.approx(0.1)
    assert scores["InfoE"].n_null == 9
    assert scores["InfoE"].low is None


def test_noise_scores_high_on_infom_and_its_null_says_so() -> None:
    factors, _ = planted(0)
    noise = np.random.default_rng(9).normal(size=(400, 2))
    scores = judged(factors, noise, QUICK, n_null=19)
    assert scores["InfoE"].score.value < 0.05
    assert scores["InfoM"].null > 0.3
    assert scores["InfoM"].p_value > 0.05


@pytest.mark.slow
def test_half_sample_intervals_cover_the_truth_about_as_often_as_they_say() -> None:
    settings = ScoreSettings(groups=("mcc",))
    truth = score_factors(*planted(12345, 200_000), settings).value("MCC-pearson")
    covered = 0
    for seed in range(100):
        score = judged(*planted(seed), settings, n_halves=60)["MCC-pearson"]
        covered += score.low <= truth <= score.high
    # 95 % nominal; the deviation of 100 trials is 2.2 %, of 60 draws another few.
    assert covered >= 86


def test_a_half_sample_without_a_rare_class_is_passed_over() -> None:
    factors = encode_factors(
        {"rare": np.r_[np.ones(2, dtype=int), np.zeros(38, dtype=int)], "even": np.arange(40) % 2}
    )
    latents = np.random.default_rng(0).normal(size=(40, 2))
    settings = ScoreSettings(groups=("mcc",))
    halves = score_draws(half_draws(np.arange(40), 40, 0), factors, latents, settings)
    assert 0 < np.isfinite(halves[:, 0]).sum() < 40
    assert judged(factors, latents, settings, n_halves=40)["MCC-pearson"].low is not None


def test_undefined_scores_stay_undefined_when_judged() -> None:
    factors = encode_factors({"only": np.arange(60) % 3})
    latents = np.random.default_rng(0).normal(size=(60, 2))
    score = judged(factors, latents, QUICK, n_null=2, n_halves=2)["InfoM"]
    assert "factors" in score.score.reason
    assert (score.null, score.p_value, score.low) == (None, None, None)


def test_intervals_are_students_with_the_freedom_of_halves() -> None:
    factors, latents = planted(0)
    score = score_factors(factors, latents, ScoreSettings(groups=("mcc",))).scores[0]

    def interval(*halves: float) -> tuple[float | None, float | None]:
        rows = np.arange(len(latents))
        values = np.array(halves)
        found = judge_score(score, np.empty(0), values, plan_shuffle(factors), rows)
        return found.low, found.high

    deviation = np.std([0.4, 0.5, 0.6, 0.5], ddof=1)
    # The quantile of Student's t from a table for 3 degrees of freedom; undefined halves are left.
    low, high = interval(0.4, 0.5, np.nan, 0.6, 0.5)
    assert low == pytest.approx(score.value - 3.182 * deviation, abs=1e-4)
    assert high == pytest.approx(min(1.0, score.value + 3.182 * deviation), abs=1e-4)
    assert interval(0.4) == (None, None)


def test_modularity_has_no_interval() -> None:
    scores = judged(*planted(0), ScoreSettings(groups=("modularity",)), n_halves=4)
    assert scores["modularity"].score.value is not None
    assert scores["modularity"].low is None


def test_tasks_hold_every_draw_once_and_in_order() -> None:
    draws = half_draws(np.arange(30), 21, 0)
    parts = [rows for part in draws.tasks() for rows in part.rows]
    assert len(draws.tasks()) > 1
    assert all(part is whole for part, whole in zip(parts, draws.rows, strict=True))
