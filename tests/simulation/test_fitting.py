from itertools import pairwise

import pytest
import torch

from repalign.simulation.fitting import Budget, fit, perceptron, seeded


def line(budget: Budget, seed: int = 0) -> tuple[list[int], torch.Tensor]:
    """Fit a line through fresh points; return the steps seen and the weights."""
    seen: list[int] = []
    with seeded(seed):
        module = perceptron([1, 1])

        def loss() -> torch.Tensor:
            x = torch.rand(16, 1)
            return (module(x) - 3 * x + 1).square().mean()

        fit(module, loss, budget, seen.append)
    return seen, torch.cat([each.detach().ravel() for each in module.parameters()])


@pytest.mark.parametrize("is_constant", [False, True])
def test_a_line_is_fitted_in_as_many_steps_as_asked(is_constant: bool) -> None:
    seen, weights = line(Budget(400, 16, 0.05, is_constant=is_constant))
    assert seen == list(range(1, 401))
    torch.testing.assert_close(weights, torch.tensor([3.0, -1.0]), atol=0.05, rtol=0)


def test_a_seed_gives_the_same_weights_and_leaves_the_generator_alone() -> None:
    state = torch.random.get_rng_state()
    first, again, other = (line(Budget(5, 16, 0.05), seed)[1] for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_the_cycle_ends_at_rest() -> None:
    steps: list[torch.Tensor] = []
    with seeded(0):
        module = perceptron([1, 1])

        def loss() -> torch.Tensor:
            return (module(torch.ones(1, 1)) - 100).square().mean()

        fit(
            module,
            loss,
            Budget(50, 1, 0.1),
            lambda step: steps.append(module[0].weight.detach().clone()),
        )
    moves = [float((b - a).abs()) for a, b in pairwise(steps)]
    assert moves[-1] < 0.01 * max(moves)


def test_batch_norms_and_activations_stand_between_the_layers_only() -> None:
    kinds = [type(layer).__name__ for layer in perceptron([2, 3, 4], norm=True)]
    assert kinds == ["Linear", "BatchNorm1d", "LeakyReLU", "Linear"]
