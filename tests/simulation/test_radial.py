import numpy as np
import pytest

from repalign.simulation.fitting import Budget
from repalign.simulation.radial import SPREAD, RadialClasses, train_radial


def test_sectors_are_equal_and_numbered_by_angle() -> None:
    angles = 2 * np.pi * (np.arange(18) + 0.5) / 18
    points = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    assert RadialClasses().sectors(points).tolist() == list(range(18))
    _, labels = RadialClasses().draw(18_000, np.random.default_rng(0))
    assert np.bincount(labels, minlength=18) == pytest.approx(1000, abs=150)


def test_a_point_just_below_the_axis_is_in_the_last_sector() -> None:
    assert RadialClasses().sectors(np.array([[1.0, -1e-20]])).tolist() == [17]


def test_label_noise_moves_labels_and_not_points() -> None:
    hard, noisy = (RadialClasses(label_noise=noise) for noise in (0.0, 1.0))
    points, labels = hard.draw(2000, np.random.default_rng(0))
    same, moved = noisy.draw(2000, np.random.default_rng(0))
    assert np.array_equal(points, same)
    assert 0.2 < np.mean(labels != moved) < 0.8
    assert points.std() == pytest.approx(SPREAD, rel=0.05)


def test_features_are_kept_at_the_steps_asked_for() -> None:
    judged = SPREAD * np.random.default_rng(0).standard_normal((100, 2))
    runs = [
        train_radial(RadialClasses(), Budget(20, 32, 1e-2), judged, seed=0, at=(0, 5, 20))
        for _ in range(2)
    ]
    assert list(runs[0].features) == [0, 5, 20]
    assert not np.allclose(runs[0].features[0], runs[0].features[20])
    assert np.array_equal(runs[0].features[20], runs[1].features[20])
    assert 0 <= runs[0].accuracy <= 1
