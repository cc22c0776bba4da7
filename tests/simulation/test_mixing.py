import numpy as np

from repalign.simulation.mixing import draw_mixing


def test_observations_are_standardised_and_can_be_undone() -> None:
    rng = np.random.default_rng(0)
    latents = rng.random((400, 3))
    mixing = draw_mixing(latents, 3, rng)
    seen = mixing.observe(latents)
    assert seen.dtype == np.float32
    np.testing.assert_allclose(seen.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(seen.std(axis=0), 1, atol=1e-6)

    values = seen * mixing.scale + mixing.mean
    for number, layer in enumerate(reversed(mixing.layers)):
        values = np.where(values > 0, values, values / mixing.leak) if number else values
        values = values @ np.linalg.inv(layer)
    np.testing.assert_allclose(values, latents, atol=1e-5)  # observations are float32


def test_layers_are_well_conditioned_and_the_mixing_is_not_linear() -> None:
    rng = np.random.default_rng(0)
    latents = rng.random((400, 3))
    mixing = draw_mixing(latents, 2, rng)
    assert all(np.linalg.cond(layer) < 2 for layer in mixing.layers)
    residual = np.linalg.lstsq(np.c_[latents, np.ones(400)], mixing.observe(latents))[1]
    assert np.all(residual / 400 > 1e-3)
