import numpy as np
import pytest

from repalign.simulation.fitting import Budget
from repalign.simulation.orthogonal import (
    OrthogonalAutoencoder,
    Patience,
    _Watch,
    train_orthogonal,
)
from repalign.simulation.stretch import bilipschitz

RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((300, 12)) * np.linspace(3, 0.1, 12)
EVERY = np.arange(300)


def train(leak: float, n_steps: int = 150, n: int = 2, **changes):
    model = OrthogonalAutoencoder((12, 8, 6, 3), leak)
    budget = Budget(n_steps, 64, 1e-2)
    return train_orthogonal(ROWS, [EVERY] * n, [EVERY] * n, model, budget, seed=0, **changes)


def test_an_isometry_finds_the_principal_subspace_up_to_a_rotation() -> None:
    runs = train(leak=1.0, n_steps=300)
    values = np.linalg.svd(ROWS - ROWS.mean(axis=0), compute_uv=False) ** 2
    best = 1 - values[:3].sum() / values.sum()
    for run in runs:
        assert run.reconstruction == pytest.approx(best, abs=0.01)
        assert bilipschitz(run.jacobians, RNG).exact == pytest.approx(np.ones(300))
    turn = np.linalg.lstsq(runs[0].latents, runs[1].latents, rcond=None)[0]
    assert np.abs(turn @ turn.T - np.eye(3)).max() < 0.05
    assert not np.allclose(runs[0].untrained, runs[0].latents)


def test_no_decoder_exceeds_the_bound_of_its_leak() -> None:
    model = OrthogonalAutoencoder((12, 8, 6, 3), 0.5)
    (run,) = train(leak=0.5, n_steps=20, n=1)
    exact = bilipschitz(run.jacobians, RNG).exact
    assert model.bound == 4.0
    assert 1.2 < exact.max() <= model.bound + 1e-6


def test_derivatives_are_those_of_differences() -> None:
    (run,) = train(leak=0.5, n_steps=20, n=1)
    model = OrthogonalAutoencoder((12, 8, 6, 3), 0.5)
    twice = train_orthogonal(
        ROWS, [EVERY], [EVERY], model, Budget(20, 64, 1e-2), seed=0, patience=Patience()
    )[0]
    # leaky ReLUs are homogeneous, so that a decoder is its derivative times the point
    back = np.einsum("npl,nl->np", run.jacobians, run.latents)
    error = ((back - ROWS) ** 2).sum() / ((ROWS - ROWS.mean(axis=0)) ** 2).sum()
    assert error == pytest.approx(run.reconstruction, rel=1e-4)
    assert np.array_equal(twice.latents, run.latents)


def test_autoencoders_trained_side_by_side_do_not_touch_each_other() -> None:
    halves = [EVERY[:150], EVERY[150:]]
    model, budget = OrthogonalAutoencoder((12, 8, 6, 3), 0.5), Budget(30, 32, 1e-2)
    first = train_orthogonal(ROWS, halves, halves, model, budget, seed=0)[0]
    spoilt = np.concatenate([ROWS[:150], 100 * ROWS[150:]])
    again = train_orthogonal(spoilt, halves, halves, model, budget, seed=0)[0]
    assert np.allclose(first.latents, again.latents, atol=1e-5)


def test_training_ends_when_none_improves_for_long_enough() -> None:
    watch = _Watch(2, Patience(n_epochs=2, improvement=0.1), n_steps=1)
    ends = []
    for step, losses in enumerate([(5, 5), (4, 5), (4, 5.0), (4, 4.95), (1, 1)], start=1):
        watch.hear(np.array(losses, dtype=float))
        ends.append(watch.is_done(step))
    assert ends == [False, False, False, True, False]
