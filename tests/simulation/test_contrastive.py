import numpy as np
import pytest
import torch

from repalign.core.factors.recovery import linear_r2_held_out, mean_correlation
from repalign.simulation.contrastive import ContrastiveModel, info_nce, outputs, train_contrastive
from repalign.simulation.fitting import Budget, perceptron
from repalign.simulation.latents import Latents

BUDGET = Budget(300, 128, 1e-2)


@pytest.mark.parametrize(("similarity", "power"), [("l1", 1), ("l2", 2), ("cosine", 0)])
def test_the_loss_is_its_formula(similarity, power: int) -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((6, 4))
    loss = info_nce(torch.from_numpy(rows), ContrastiveModel(similarity, 0.5))

    def score(a: np.ndarray, b: np.ndarray) -> float:
        return (a @ b if power == 0 else -np.sum(np.abs(a - b) ** power)) / 0.5

    points, neighbours = rows[:3], rows[3:]
    terms = []
    for i in range(3):
        own = score(points[i], neighbours[i])
        others = [score(points[i], points[j]) for j in range(3) if j != i]
        terms.append(np.log(np.sum(np.exp([own, *others]))) - own)
    assert float(loss) == pytest.approx(np.mean(terms))


def test_outputs_are_on_the_sphere_where_the_model_has_them_there() -> None:
    encoder, rows = perceptron([3, 3]), torch.randn(5, 3)
    assert torch.allclose(
        outputs(encoder, rows, ContrastiveModel("cosine", 1)).norm(dim=1), torch.ones(5)
    )
    assert torch.equal(outputs(encoder, rows, ContrastiveModel("l1", 1)), encoder(rows))


@pytest.mark.parametrize("seed", range(2))
def test_latents_of_a_sphere_are_recovered_linearly(seed: int) -> None:
    found = train_contrastive(
        Latents("sphere", 5, "von-mises-fisher", 10),
        ContrastiveModel("cosine", 0.1),
        BUDGET,
        n_layers=2,
        seed=seed,
    )
    trained, untrained, raw = (
        linear_r2_held_out(found.latents, rows).value
        for rows in (found.trained, found.untrained, found.observed)
    )
    assert trained > 0.98
    assert trained > max(untrained, raw) + 0.05


@pytest.mark.slow
def test_only_the_right_metric_recovers_latents_of_a_box_one_by_one() -> None:
    laplace, normal = (Latents("box", 5, noise, 0.05) for noise in ("laplace", "normal"))
    right, wrong, linear = [], [], []
    for seed in range(3):
        for latents, kept in ((laplace, right), (normal, wrong)):
            found = train_contrastive(
                latents, ContrastiveModel("l1", 0.05), BUDGET, n_layers=2, seed=seed
            )
            kept.append(mean_correlation(found.latents, found.trained).value)
            linear.append(linear_r2_held_out(found.latents, found.trained).value)
    assert min(right) > 0.98
    assert max(wrong) < min(right)
    assert np.mean(wrong) < 0.9
    assert min(linear) > 0.95
