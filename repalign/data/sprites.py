"""Pictures with known factors: a coloured shape on a black ground, drawn from formulas.

Six independent factors: shape (square, ellipse, heart), scale, orientation, x, y and colour (hue).
They are in the manner of dSprites (Matthey et al. 2017), with colour, and are our own drawings.
A square looks the same after a quarter turn and an ellipse after half a turn, so that their
orientation is known only up to that.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from repalign.aliases import FloatArray, IntArray
from repalign.exceptions import InputError

SHAPES = ("square", "ellipse", "heart")
LEVELS = {"shape": 3, "scale": 6, "orientation": 40, "x": 32, "y": 32, "colour": 8}
SIDE = 64
# Centres and half-widths in units of half the picture.
REACH = 0.55
SMALLEST, LARGEST = 0.18, 0.36
BLOCK = 256


@dataclass(frozen=True, eq=False)
class Sprites:
    """Pictures and their factors.

    Attributes:
        images: ``(n, side, side, 3)`` uint8.
        codes: ``(n, 6)`` level of every factor, in the order of ``LEVELS``.
    """

    images: NDArray[np.uint8]
    codes: IntArray

    @property
    def factors(self) -> dict[str, IntArray]:
        """Levels by name of the factor."""
        return dict(zip(LEVELS, self.codes.T, strict=True))


def sample_sprites(
    n_images: int, *, seed: int, side: int = SIDE, fixed: Mapping[str, int] | None = None
) -> Sprites:
    """Draw pictures with independent, uniform factors; the same seed gives the same pictures.

    ``fixed`` has factors that keep one level.
    """
    if n_images < 1:
        raise InputError(f"{n_images} pictures were asked for; expected at least 1")
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(0, levels, n_images) for levels in LEVELS.values()], axis=1)
    for name, level in (fixed or {}).items():
        codes[:, list(LEVELS).index(name)] = level
    return Sprites(draw_sprites(codes, side=side), codes)


def draw_sprites(codes: IntArray, *, side: int = SIDE) -> NDArray[np.uint8]:
    """Draw the pictures of given factor levels, ``(n, side, side, 3)`` uint8.

    Raises:
        InputError: a level that does not exist.
    """
    limits = np.array(list(LEVELS.values()))
    if codes.ndim != 2 or codes.shape[1] != limits.size:
        raise InputError(
            f"factor levels have shape {codes.shape}; expected {limits.size} columns: "
            f"{', '.join(LEVELS)}"
        )
    if np.any(codes < 0) or np.any(codes >= limits):
        row, column = np.argwhere((codes < 0) | (codes >= limits))[0]
        raise InputError(
            f"{list(LEVELS)[column]} of row {row} is level {codes[row, column]}; "
            f"expected 0 to {limits[column] - 1}"
        )
    images = np.empty((codes.shape[0], side, side, 3), dtype=np.uint8)
    for start in range(0, codes.shape[0], BLOCK):
        block = codes[start : start + BLOCK]
        brightness = (255 * _colours(block[:, 5])).astype(np.float32)
        cover = _coverage(block, side).astype(np.float32)
        images[start : start + BLOCK] = np.rint(cover[..., None] * brightness[:, None, None])
    return images


def _coverage(codes: IntArray, side: int) -> FloatArray:
    """Share of every pixel that the shape covers, ``(n, side, side)``."""
    shape, scale, orientation, x, y, _ = codes.T[:, :, None, None]
    half_width = SMALLEST + (LARGEST - SMALLEST) * scale / (LEVELS["scale"] - 1)
    angle = 2 * np.pi * orientation / LEVELS["orientation"]
    centre_x = REACH * (2 * x / (LEVELS["x"] - 1) - 1)
    centre_y = REACH * (2 * y / (LEVELS["y"] - 1) - 1)
    grid = (np.arange(side) + 0.5) / side * 2 - 1
    across, down = grid[None, None, :] - centre_x, grid[None, :, None] - centre_y
    u = (np.cos(angle) * across + np.sin(angle) * down) / half_width
    v = (np.cos(angle) * down - np.sin(angle) * across) / half_width
    distance = np.empty_like(u)
    for number, edge in enumerate((_square, _ellipse, _heart)):
        chosen = shape[:, 0, 0] == number
        distance[chosen] = edge(u[chosen], v[chosen])
    # Distances are in half-widths; the edge is about one pixel wide.
    pixels = distance * half_width * side / 2
    covered: FloatArray = np.clip(0.5 - pixels, 0.0, 1.0)
    return covered


def _square(u: FloatArray, v: FloatArray) -> FloatArray:
    edge: FloatArray = np.maximum(np.abs(u), np.abs(v)) - 0.8
    return edge


def _ellipse(u: FloatArray, v: FloatArray) -> FloatArray:
    radius = np.hypot(u, v / 0.6)
    edge: FloatArray = (radius - 1.0) * 0.6
    return edge


def _heart(u: FloatArray, v: FloatArray) -> FloatArray:
    """The curve (u² + w² − 1)³ = u² w³, divided by its slope to be near a distance."""
    a, w = 1.15 * u, 0.1 - 1.15 * v
    # Products, because powers of arrays are slow.
    a_squared, w_squared = a * a, w * w
    inner = a_squared + w_squared - 1
    inner_squared, w_cubed = inner * inner, w_squared * w
    value = inner_squared * inner - a_squared * w_cubed
    slope_a = a * (6 * inner_squared - 2 * w_cubed)
    slope_w = w * (6 * inner_squared - 3 * a_squared * w)
    edge: FloatArray = value / (1.15 * np.hypot(slope_a, slope_w) + 1e-3)
    return edge


def _colours(levels: IntArray) -> FloatArray:
    """Hues around the circle at full saturation, ``(n, 3)`` in 0..1."""
    hue = 6 * levels[:, None] / LEVELS["colour"]
    away = np.abs((hue - np.array([0.0, 2.0, 4.0]) + 3) % 6 - 3)
    colours: FloatArray = np.clip(2 - away, 0.0, 1.0)
    return colours
