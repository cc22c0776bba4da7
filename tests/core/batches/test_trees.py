import numpy as np
import pytest

from repalign.core.batches.trees import BoostingSettings, balanced_accuracy, judge

FAST = BoostingSettings(rounds=20)


def planted(seed: int, n_rows: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """The label shows in feature 2 only."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, n_rows)
    values = rng.normal(size=(n_rows, 5))
    values[:, 2] += 3 * labels
    return values, labels


def test_defaults_are_the_papers() -> None:
    settings = BoostingSettings()
    assert (settings.learning_rate, settings.num_leaves, settings.feature_fraction) == (
        0.05,
        31,
        0.6,
    )
    assert (settings.reg_alpha, settings.reg_lambda) == (5.0, 1.0)
    assert (settings.min_gain_to_split, settings.min_data_in_leaf) == (0.8, 30)
    assert settings.is_unbalance
    assert settings.rounds == 100


def test_a_planted_feature_is_found_and_ranked_first() -> None:
    verdict = judge(planted(0), planted(1), FAST, seed=0)
    assert verdict.auroc > 0.95
    assert verdict.split_counts.argmax() == 2


def test_the_same_seed_gives_the_same_verdict() -> None:
    first, again = (judge(planted(0), planted(1), FAST, seed=3) for _ in range(2))
    assert first.auroc == again.auroc
    assert first.split_counts.tolist() == again.split_counts.tolist()


def test_shuffled_labels_are_told_no_better_than_chance() -> None:
    values, labels = planted(0, 2000)
    shuffled = np.random.default_rng(5).permutation(labels)
    verdict = judge((values, shuffled), planted(1, 2000), FAST, seed=0)
    assert abs(verdict.auroc - 0.5) < 0.2


@pytest.mark.parametrize("n_classes", [2, 4])
def test_balanced_accuracy_of_planted_classes(n_classes: int) -> None:
    rng = np.random.default_rng(0)
    classes = np.arange(800) % n_classes
    values = rng.normal(size=(800, 3)) + 4 * classes[:, None]
    train, test = (values[:400], classes[:400]), (values[400:], classes[400:])
    noise = (rng.normal(size=(400, 3)), classes[400:])
    assert balanced_accuracy(train, test, FAST, seed=0) > 0.9
    assert balanced_accuracy(train, noise, FAST, seed=0) < 1.5 / n_classes
