import numpy as np
import pytest
from scipy.special import ive
from scipy.stats import truncnorm

from repalign.simulation.latents import Latents, on_sphere, von_mises_fisher

NOISES = ("laplace", "normal")


@pytest.mark.parametrize("noise", ["von-mises-fisher", *NOISES])
def test_neighbours_on_the_sphere_stay_there_and_near(noise) -> None:
    latents = Latents("sphere", 4, noise, 20.0 if noise == "von-mises-fisher" else 0.1)
    rng = np.random.default_rng(0)
    points = latents.draw(500, rng)
    found = latents.neighbours(points, rng)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1)
    assert np.mean(np.sum(points * found, axis=1)) > 0.8


@pytest.mark.parametrize("noise", NOISES)
def test_neighbours_in_the_box_stay_there_and_near(noise) -> None:
    latents = Latents("box", 3, noise, 0.05)
    rng = np.random.default_rng(0)
    points = latents.draw(500, rng)
    found = latents.neighbours(points, rng)
    assert found.min() >= 0
    assert found.max() <= 1
    assert np.mean(np.abs(points - found)) < 0.06
    assert not np.any(found == points)


@pytest.mark.parametrize(("dim", "concentration"), [(3, 2.0), (5, 10.0)])
def test_von_mises_fisher_has_the_mean_of_its_formula(dim: int, concentration: float) -> None:
    rng = np.random.default_rng(0)
    directions = on_sphere(rng.standard_normal((20_000, dim)))
    directions[0] = np.eye(dim)[0]  # the pole itself
    found = von_mises_fisher(directions, concentration, rng)
    cosine = np.sum(directions * found, axis=1)
    # A(κ) = I_{d/2}(κ) / I_{d/2−1}(κ); four standard errors
    expected = ive(dim / 2, concentration) / ive(dim / 2 - 1, concentration)
    assert abs(cosine.mean() - expected) < 4 * cosine.std() / np.sqrt(cosine.size)


def test_noise_is_cut_off_at_the_walls_and_not_folded() -> None:
    latents = Latents("box", 1, "normal", 0.1)
    found = latents.neighbours(np.full((20_000, 1), 0.05), np.random.default_rng(0))
    expected = truncnorm(-0.5, 9.5, loc=0.05, scale=0.1)
    assert abs(found.mean() - expected.mean()) < 4 * expected.std() / np.sqrt(20_000)
