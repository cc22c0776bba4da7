"""Latent variables on a sphere or in a box: where they lie, and their neighbours."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from repalign.aliases import FloatArray

Space = Literal["sphere", "box"]
Noise = Literal["von-mises-fisher", "laplace", "normal"]


@dataclass(frozen=True)
class Latents:
    """Uniform latents of a space, and the distribution of a neighbour given a point.

    Attributes:
        space: The unit sphere, or the box from 0 to 1.
        dim: Dimension of the space around.
        noise: Of a neighbour: von Mises-Fisher round the point (sphere only); or Laplace or
            normal noise, projected to the sphere, or cut off at the walls of the box.
        scale: Concentration κ of von Mises-Fisher, else the scale s of the noise (Laplace
            exp(−|u|/s), normal of standard deviation s).
    """

    space: Space
    dim: int
    noise: Noise
    scale: float

    def draw(self, n_rows: int, rng: np.random.Generator) -> FloatArray:
        """Return uniform latents, one a row."""
        if self.space == "sphere":
            return on_sphere(rng.standard_normal((n_rows, self.dim)))
        return rng.random((n_rows, self.dim))

    def neighbours(self, latents: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Return one neighbour of every row."""
        if self.noise == "von-mises-fisher":
            return von_mises_fisher(latents, self.scale, rng)
        draw = _NOISES[self.noise]
        if self.space == "sphere":
            return on_sphere(latents + self.scale * draw(latents.shape, rng))
        found = latents + self.scale * draw(latents.shape, rng)
        # coordinates are independent, so those outside are drawn again one by one
        while (outside := (found < 0) | (found > 1)).any():
            found[outside] = latents[outside] + self.scale * draw((int(outside.sum()),), rng)
        return found


def on_sphere(rows: FloatArray) -> FloatArray:
    """Return rows divided by their norms."""
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def von_mises_fisher(
    directions: FloatArray, concentration: float, rng: np.random.Generator
) -> FloatArray:
    """Draw one direction from the von Mises-Fisher distribution round each unit row."""
    from scipy.stats import vonmises_fisher

    n_rows, dim = directions.shape
    pole = np.eye(dim)[0]
    drawn = vonmises_fisher(pole, concentration).rvs(n_rows, random_state=rng).reshape(n_rows, dim)
    # the reflection that takes the pole to the direction
    normal = pole - directions
    length = np.sum(normal**2, axis=1, keepdims=True)
    along = np.sum(normal * drawn, axis=1, keepdims=True)
    return drawn - 2 * np.divide(along, length, out=np.zeros_like(along), where=length > 0) * normal


def _laplace(shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
    return rng.laplace(size=shape)


def _normal(shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
    return rng.standard_normal(shape)


_NOISES: dict[str, Callable[[tuple[int, ...], np.random.Generator], FloatArray]] = {
    "laplace": _laplace,
    "normal": _normal,
}
