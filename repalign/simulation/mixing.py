"""An invertible nonlinear mixing: what is observed of latents."""

from dataclasses import dataclass

import numpy as np

from repalign.aliases import FloatArray

N_DRAWS = 2000


@dataclass(frozen=True, eq=False)
class Mixing:
    """Square layers with a leaky ReLU between them; observations are standardised.

    Attributes:
        layers: Matrices, applied from the right.
        leak: Slope of the leaky ReLU below zero.
        mean: Of the last layer, taken away.
        scale: Standard deviations of the last layer, divided by.
    """

    layers: tuple[FloatArray, ...]
    leak: float
    mean: FloatArray
    scale: FloatArray

    def observe(self, latents: FloatArray) -> FloatArray:
        """Return what is seen of latents, float32."""
        seen = (_mixed(latents, self.layers, self.leak) - self.mean) / self.scale
        return seen.astype(np.float32)


def draw_mixing(
    latents: FloatArray, n_layers: int, rng: np.random.Generator, *, leak: float = 0.2
) -> Mixing:
    """Draw a mixing whose observations of these latents are standardised.

    Every layer is the best conditioned of ``N_DRAWS`` matrices with uniform entries and columns
    of norm 1, as in the code of Zimmermann et al. (2021).
    """
    dim = latents.shape[1]
    layers = tuple(_best_conditioned(dim, rng) for _ in range(n_layers))
    seen = _mixed(latents, layers, leak)
    return Mixing(layers, leak, seen.mean(axis=0), seen.std(axis=0))


def _best_conditioned(dim: int, rng: np.random.Generator) -> FloatArray:
    drawn = rng.uniform(-1, 1, (N_DRAWS, dim, dim))
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    return np.asarray(drawn[np.argmin(np.linalg.cond(drawn))])


def _mixed(latents: FloatArray, layers: tuple[FloatArray, ...], leak: float) -> FloatArray:
    values = latents
    for number, layer in enumerate(layers):
        if number:
            values = np.where(values > 0, values, leak * values)
        values = values @ layer
    return values
