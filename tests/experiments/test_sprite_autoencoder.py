import numpy as np
import pytest
import torch

from repalign.conditions.settings import TransformSettings
from repalign.data.sprites import sample_sprites
from repalign.disentanglement.run import disentangle
from repalign.disentanglement.settings import FactorSettings
from repalign.exceptions import InputError
from repalign.experiments.sprite_autoencoder import (
    AutoencoderSettings,
    encode_images,
    train_autoencoder,
)

TINY = AutoencoderSettings(n_steps=6, batch_size=8, channels=(4, 4))


def test_training_is_deterministic_and_leaves_the_global_generator_alone() -> None:
    images = sample_sprites(32, seed=0, side=16).images
    state = torch.random.get_rng_state()
    seen: list[tuple[int, int]] = []

    first = train_autoencoder(
        images, TINY, on_progress=lambda done, total: seen.append((done, total))
    )
    again = train_autoencoder(images, TINY)

    assert first.losses == again.losses
    assert encode_images(first, images).tolist() == encode_images(again, images).tolist()
    assert torch.equal(torch.random.get_rng_state(), state)
    assert seen[-1] == (6, 6)


def test_latents_are_twice_the_factors_and_the_loss_falls() -> None:
    images = sample_sprites(64, seed=0, side=16).images
    settings = AutoencoderSettings(n_steps=60, batch_size=16, channels=(8, 8))
    autoencoder = train_autoencoder(images, settings)
    assert encode_images(autoencoder, images).shape == (64, 12)
    assert np.mean(autoencoder.losses[-10:]) < 0.7 * np.mean(autoencoder.losses[:5])


def test_pictures_of_an_odd_side_are_refused() -> None:
    with pytest.raises(InputError, match=r"\(2, 20, 20, 3\).* 16"):
        train_autoencoder(np.zeros((2, 20, 20, 3), dtype=np.uint8))


@pytest.mark.slow
def test_positions_of_real_pictures_are_told_from_the_latents() -> None:
    sprites = sample_sprites(2000, seed=0, side=32)
    settings = AutoencoderSettings(n_steps=400, batch_size=32, channels=(8, 16, 16))
    latents = encode_images(train_autoencoder(sprites.images, settings), sprites.images)
    result = disentangle(
        latents,
        sprites.factors,
        settings=FactorSettings(
            scores=("infomec", "r2"),
            factors=("x", "y"),
            n_null=3,
            n_halves=0,
            transform=TransformSettings(conditions=("raw", "ica")),
        ),
    )
    frame = result.to_frame().set_index(["condition", "score"])
    assert frame.value["raw", "linear-R2"] > 0.5
    assert frame.value["raw", "InfoE"] > frame["null"]["raw", "InfoE"] + 0.1


@pytest.mark.parametrize("kind", ["beta-vae", "beta-tcvae"])
def test_a_variational_autoencoder_gives_its_means_and_learns(kind) -> None:
    images = sample_sprites(64, seed=0, side=16).images
    settings = AutoencoderSettings(n_steps=60, batch_size=16, channels=(8, 8), kind=kind, beta=2.0)
    told: list[int] = []
    autoencoder = train_autoencoder(images, settings, on_step=lambda step, _: told.append(step))
    latents = encode_images(autoencoder, images)
    assert latents.shape == (64, 12)
    assert np.array_equal(latents, encode_images(autoencoder, images))
    assert np.mean(autoencoder.losses[-10:]) < 0.7 * np.mean(autoencoder.losses[:5])
    assert told == list(range(61))
