import numpy as np
import pytest
import torch

from repalign.experiments.variational import divergence, drawn, total_correlation


def test_the_divergence_is_that_of_normals() -> None:
    means, log_variances = torch.tensor([[1.0, 0.0]]), torch.log(torch.tensor([[1.0, 4.0]]))
    from_mean, from_variance = 0.5, 0.5 * (4 - 1 - np.log(4))
    assert float(divergence(means, log_variances)) == pytest.approx(from_mean + from_variance)
    assert float(divergence(torch.zeros(3, 2), torch.zeros(3, 2))) == 0


def test_draws_have_the_means_and_variances() -> None:
    torch.manual_seed(0)
    shape = (20_000, 1)
    found = drawn(torch.full(shape, 2.0), torch.full(shape, np.log(0.25)))
    assert float(found.mean()) == pytest.approx(2, abs=0.02)
    assert float(found.std()) == pytest.approx(0.5, abs=0.02)


def test_dependent_latents_have_the_larger_total_correlation() -> None:
    torch.manual_seed(0)
    first, second = torch.randn(400, 1), torch.randn(400, 1)
    narrow = torch.full((400, 2), np.log(0.01))

    def estimate(means: torch.Tensor) -> float:
        return float(total_correlation(drawn(means, narrow), means, narrow, 400))

    apart, alike = (torch.cat([first, other], dim=1) for other in (second, first))
    assert estimate(alike) > estimate(apart) + 1
