import numpy as np
import pytest

from repalign.core.factors.recovery import linear_r2_held_out
from repalign.simulation.clusters import ClusterEncoder, Clusters, train_classifier
from repalign.simulation.fitting import Budget

BUDGET = Budget(400, 256, 1e-2)
ONE, TWO = (ClusterEncoder(n_layers, (10, 50, 50, 10)) for n_layers in (1, 2))


def r2(recovery) -> float:
    return linear_r2_held_out(recovery.latents, recovery.trained).value


@pytest.mark.slow
def test_enough_classes_recover_latents_and_too_few_do_not() -> None:
    many, few = (train_classifier(Clusters(5, n, 10.0), TWO, BUDGET, seed=0) for n in (100, 4))
    assert r2(many.uniform) > 0.95
    assert r2(many.uniform) > r2(few.uniform) + 0.05
    assert r2(many.uniform) > linear_r2_held_out(many.uniform.latents, many.uniform.untrained).value
    # too few classes are no failure of training
    assert 0 < few.excess_loss < many.excess_loss + 0.05 < 0.25


def test_latents_are_on_the_sphere_uniform_or_in_clusters() -> None:
    found = train_classifier(Clusters(3, 2, 100.0), ONE, Budget(2, 8, 1e-2), seed=0)
    for rows in (found.drawn.latents, found.uniform.latents):
        np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1)
    assert np.abs(found.uniform.latents.mean(axis=0)).max() < 0.05
    assert found.excess_loss > 0.5  # two steps of training


def test_a_seed_gives_the_same_features() -> None:
    first, again = (
        train_classifier(Clusters(3, 5, 10.0), ONE, Budget(3, 16, 1e-2), seed=1) for _ in range(2)
    )
    assert np.array_equal(first.uniform.trained, again.uniform.trained)
