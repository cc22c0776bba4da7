"""A small autoencoder of images: latents for which the true factors are known.

In the manner of section 4.3 of the paper: a vanilla convolutional autoencoder, weight decay as
the only regularisation, twice as many latents as factors; or a β-VAE or β-TCVAE of the same
layers. It is far smaller than the paper's, so that its scores stand next to the paper's but do not
repeat them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from repalign.aliases import FloatArray
from repalign.core.device import threads_held
from repalign.data.sprites import LEVELS
from repalign.exceptions import InputError
from repalign.experiments.variational import (
    AutoencoderKind,
    divergence,
    drawn,
    total_correlation,
)
from repalign.simulation.fitting import one_cycle

if TYPE_CHECKING:
    import torch

ENCODE_BATCH = 256


@dataclass(frozen=True)
class AutoencoderSettings:
    """How the autoencoder is trained.

    Attributes:
        n_latents: width of the code; twice the number of factors by default.
        n_steps: optimiser steps.
        batch_size: pictures a step.
        learning_rate: of AdamW.
        is_cycle: the learning rate rises over the first tenth and falls to zero, as a cosine.
        weight_decay: of AdamW, decoupled.
        channels: of the four strided convolutions.
        seed: of weights and batches.
        kind: plain, or variational.
        beta: of the variational ones: weight of the divergence, or of the total correlation.
    """

    n_latents: int = 2 * len(LEVELS)
    n_steps: int = 3000
    batch_size: int = 64
    learning_rate: float = 1e-3
    is_cycle: bool = False
    weight_decay: float = 1e-3
    channels: tuple[int, ...] = (16, 32, 32, 64)
    seed: int = 0
    kind: AutoencoderKind = "plain"
    beta: float = 1.0


@dataclass(frozen=True, eq=False)
class SpriteAutoencoder:
    """An encoder, and the reconstruction loss (nats a pixel and channel) by step.

    The encoder of a variational autoencoder gives the means first, then the log variances.
    """

    encoder: "torch.nn.Module"
    losses: tuple[float, ...]
    n_latents: int


def train_autoencoder(
    images: NDArray[np.uint8],
    settings: AutoencoderSettings | None = None,
    *,
    on_progress: Callable[[int, int], None] | None = None,
    on_step: Callable[[int, SpriteAutoencoder], None] | None = None,
) -> SpriteAutoencoder:
    """Train on ``(n, side, side, 3)`` pictures whose side is a multiple of 16; one torch thread.

    ``on_step`` hears of every state, from the untrained one on, with the number of steps done.

    Raises:
        InputError: pictures of another shape.
    """
    settings = settings or AutoencoderSettings()
    stride = 2 ** len(settings.channels)
    if images.ndim != 4 or images.shape[3] != 3 or images.shape[1] % stride:
        raise InputError(
            f"pictures have shape {images.shape}; expected (n, side, side, 3) with a side that "
            f"is a multiple of {stride}"
        )
    import torch

    with threads_held(1), torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        encoder, decoder = _networks(images.shape[1], settings)
        parameters = [*encoder.parameters(), *decoder.parameters()]
        optimiser = torch.optim.AdamW(
            parameters, lr=settings.learning_rate, weight_decay=settings.weight_decay
        )
        schedule = one_cycle(optimiser, settings.n_steps) if settings.is_cycle else None
        losses: list[float] = []

        def tell(step: int) -> None:
            if on_step is not None:
                on_step(step, SpriteAutoencoder(encoder, tuple(losses), settings.n_latents))

        tell(0)
        for step, batch in enumerate(_batches(images, settings), start=1):
            latents, extra = _latents(encoder(batch), settings, len(images))
            logits = decoder(latents)
            reconstruction = torch.nn.functional.binary_cross_entropy_with_logits(logits, batch)
            loss = reconstruction + extra / batch[0].numel()
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_value_(parameters, 1.0)
            optimiser.step()
            if schedule is not None:
                schedule.step()
            losses.append(float(reconstruction.detach()))
            tell(step)
            if on_progress is not None:
                on_progress(step, settings.n_steps)
    return SpriteAutoencoder(encoder.eval(), tuple(losses), settings.n_latents)


def encode_images(autoencoder: SpriteAutoencoder, images: NDArray[np.uint8]) -> FloatArray:
    """Return the latents of pictures, ``(n, n_latents)`` float32; of variational ones the means."""
    import torch

    with threads_held(1), torch.no_grad():
        parts = [
            autoencoder.encoder(_tensor(images[start : start + ENCODE_BATCH])).numpy()
            for start in range(0, len(images), ENCODE_BATCH)
        ]
    return np.concatenate(parts)[:, : autoencoder.n_latents]


def _latents(encoded: Any, settings: AutoencoderSettings, n_rows: int) -> tuple[Any, Any]:
    """Return what is decoded, and what the loss of an image has besides the reconstruction."""
    if settings.kind == "plain":
        return encoded, 0.0
    means, log_variances = encoded.chunk(2, dim=1)
    latents = drawn(means, log_variances)
    extra = divergence(means, log_variances)
    if settings.kind == "beta-vae":
        return latents, settings.beta * extra
    correlated = total_correlation(latents, means, log_variances, n_rows)
    return latents, extra + (settings.beta - 1) * correlated


def _networks(side: int, settings: AutoencoderSettings) -> tuple[Any, Any]:
    from torch import nn

    widths = (3, *settings.channels)
    small = side // 2 ** len(settings.channels)
    flat = widths[-1] * small * small
    n_encoded = settings.n_latents * (1 if settings.kind == "plain" else 2)
    down: list[nn.Module] = []
    up: list[nn.Module] = []
    for narrow, wide in pairwise(widths):
        down += [nn.Conv2d(narrow, wide, 4, stride=2, padding=1), nn.LeakyReLU(0.2)]
        up = [nn.ConvTranspose2d(wide, narrow, 4, stride=2, padding=1), nn.LeakyReLU(0.2), *up]
    encoder = nn.Sequential(
        *down, nn.Flatten(), nn.Linear(flat, 256), nn.LeakyReLU(0.2),
        nn.Linear(256, n_encoded),
    )  # fmt: skip
    decoder = nn.Sequential(
        nn.Linear(settings.n_latents, 256), nn.LeakyReLU(0.2), nn.Linear(256, flat),
        nn.LeakyReLU(0.2), nn.Unflatten(1, (widths[-1], small, small)), *up[:-1],
    )  # fmt: skip
    return encoder, decoder


def _batches(images: NDArray[np.uint8], settings: AutoencoderSettings) -> Iterator[Any]:
    rng = np.random.default_rng(settings.seed)
    for _ in range(settings.n_steps):
        chosen = rng.integers(0, len(images), settings.batch_size)
        yield _tensor(images[chosen])


def _tensor(images: NDArray[np.uint8]) -> Any:
    import torch

    return torch.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2))).float() / 255
