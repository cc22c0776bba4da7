import numpy as np

from repalign.core.resampling.best import plausible_best
from repalign.core.resampling.intervals import Replicates, delete_a_group


def means(values: np.ndarray) -> Replicates:
    """Candidates by line: their means over rows that are groups of their own."""
    return delete_a_group(values, np.arange(values.shape[1]))


def test_what_is_clearly_worse_is_excluded_and_what_is_not_stays() -> None:
    rng = np.random.default_rng(0)
    shared = rng.standard_normal(200)
    values = np.stack([shared + offset for offset in (0.0, 0.02, 1.0)])
    values += 0.2 * rng.standard_normal(values.shape)
    assert plausible_best(means(values)).tolist() == [True, True, False]


def test_what_candidates_share_does_not_hide_which_is_better() -> None:
    rng = np.random.default_rng(1)
    shared = 100 * rng.standard_normal(50)
    values = shared + np.array([[0.0], [1.0]]) + 0.1 * rng.standard_normal((2, 50))
    assert plausible_best(means(values)).tolist() == [True, False]


def test_one_candidate_is_the_best() -> None:
    assert plausible_best(means(np.ones((1, 5)))).tolist() == [True]


def test_equal_candidates_all_stay() -> None:
    values = np.tile(np.random.default_rng(2).standard_normal(30), (3, 1))
    assert plausible_best(means(values)).all()


def test_the_best_is_among_them_as_often_as_it_says() -> None:
    rng = np.random.default_rng(4)
    truth = np.array([0.0, 0.1, 0.1, 0.3])
    holds = []
    for _ in range(400):
        shared = rng.standard_normal((1, 40))
        values = truth[:, None] + 0.7 * shared + 0.5 * rng.standard_normal((4, 40))
        holds.append(plausible_best(means(values))[0])
    # one-sided .95 with 99 % of 400 trials; Bonferroni holds more often
    assert np.mean(holds) > 0.92
