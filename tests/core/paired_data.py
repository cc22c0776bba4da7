"""Paired rows that several tests of the numerics use."""

import numpy as np

from repalign.core.moments import PairMoments, pair_moments
from repalign.core.rows import ArrayRows


def moments_of(x: np.ndarray, y: np.ndarray) -> PairMoments:
    (moments,) = pair_moments(ArrayRows(x), ArrayRows(y))
    return moments


def fixture_a() -> tuple[np.ndarray, np.ndarray]:
    """Rotation, scale 0.7, offset and noise; legacy generator, stable across numpy versions."""
    rs = np.random.RandomState(0)
    x = rs.laplace(size=(400, 6)) * np.arange(1, 7)
    q, r = np.linalg.qr(rs.randn(6, 6))
    q *= np.sign(np.diag(r))
    return x, 0.7 * x @ q + 0.5 * rs.randn(400, 6) + 5.0


def fixture_p() -> tuple[np.ndarray, np.ndarray]:
    """Signed permutation and noise; legacy generator."""
    rs = np.random.RandomState(100)
    x = rs.laplace(size=(400, 6)) * np.arange(1, 7) + 3
    p = rs.permutation(6)
    s = np.sign(rs.randn(6))
    return x, x[:, p] * s + 0.5 * rs.randn(400, 6)


def unit_cube() -> tuple[np.ndarray, np.ndarray]:
    """Corners of the cube, and the cube turned, doubled and moved."""
    x = np.array([[i, j, k] for i in (0, 1) for j in (0, 1) for k in (0, 1)], dtype=np.float64)
    turn = np.array([[0.0, 1, 0], [-1, 0, 0], [0, 0, 1]])
    return x, 2 * x @ turn + 1
