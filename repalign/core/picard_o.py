"""Orthogonal ICA by preconditioned L-BFGS on rotations (Picard-O).

The method of Ablin, Cardoso and Gramfort (ICASSP 2018), which has the fixed points of symmetric
FastICA: over rotations W of whitened rows z, stationary points of Σ_i s_i E G(y_i), y = W z,
where the sign s_i is that of E ψ'_i − E y_i ψ_i (for log cosh: +1 for components of heavier
tails than the Gaussian, −1 for lighter).
One pass over the rows gives A = E ψ(y) zᵀ, from which the relative gradient is the skew part of
diag(s) A Wᵀ, and E ψ'(y), from which the curvature along a plane (i, j) is about
(s_i(E ψ'_i − E y_i ψ_i) + s_j(E ψ'_j − E y_j ψ_j)) / 2.

No loss is computed within a search: a step is accepted when the slope along it has not turned
uphill by more than the slope it began with, so that every pass also serves the next step.

Two searches open from the same start. One takes all components for super-Gaussian, which finds
more of them where most are; the other follows the sign of every component at once, as
sub-Gaussian ones (uniform, discrete) need: the first search drives those to the most Gaussian
mixtures, where the gradient vanishes as well. The less Gaussian of the two goes on.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float

from repalign.core.ica_contrast import Contrast
from repalign.core.ica_data import WhitenedRows
from repalign.core.ica_diagnostics import report_components

_MEMORY = 10
_CURVATURE_FLOOR = 0.01
_OPENING_PASSES = 20
_STEP_TRIES = 4
# Radians in any one plane: the model of the curvature holds no further, and a longer step
# along a flat direction can throw away all that was found.
_LONGEST_STEP = 0.5


@dataclass(frozen=True, eq=False)
class RotationFit:
    """Where the search for a rotation ended.

    Attributes:
        rotation: W, k×k, orthogonal.
        passes: Passes of the search that won, its opening included.
        gradient_rms: Root mean square of the skew gradient off the diagonal.
        converged: The gradient reached the tolerance.
    """

    rotation: Float[np.ndarray, "k k"]
    passes: int
    gradient_rms: float
    converged: bool


@dataclass(frozen=True, eq=False)
class _Pass:
    """What one pass over the rows gives: s_i-free gradient and mean slope of the score."""

    product: np.ndarray  # E ψ(y) yᵀ
    slope: np.ndarray  # E ψ'(y)


def fit_rotation(
    data: WhitenedRows,
    contrast: Contrast,
    start: Float[np.ndarray, "k k"],
    *,
    max_passes: int,
    tolerance: float,
    on_progress: Callable[[int, int], None] | None = None,
) -> RotationFit:
    """Search for the rotation to independent components, from an orthogonal start.

    After the opening of both searches the better one follows the sign of every component. It
    ends when the gradient is below the tolerance, or after ``max_passes`` of its own.
    """
    opening = min(_OPENING_PASSES, max_passes // 4)
    total = max_passes + opening
    searches = [_Search(start, sign=contrast.super_gaussian_sign) for _ in range(2)]
    done = 0
    for search, adaptive in zip(searches, (False, True), strict=True):
        for _ in range(opening):
            search.observe(_measure(data, contrast, search.trial), adaptive=adaptive)
            search.step()
            done += 1
            if on_progress is not None:
                on_progress(done, total)
    # Of equals the first: it has held on to fixed signs.
    search = min(searches, key=lambda s: report_components(data, contrast, s.best).contrast_value)
    for passes in range(opening + 1, max_passes + 1):
        search.observe(_measure(data, contrast, search.trial), adaptive=True)
        if on_progress is not None:
            on_progress(opening + passes, total)
        if search.gradient_rms < tolerance:
            return RotationFit(search.best, passes, search.gradient_rms, True)
        search.step()
    return RotationFit(search.best, max_passes, search.gradient_rms, False)


def _measure(data: WhitenedRows, contrast: Contrast, rotation: np.ndarray) -> _Pass:
    rank = rotation.shape[0]
    w = torch.from_numpy(rotation.T.copy()).to(device=data.device, dtype=torch.float32)
    total = torch.zeros((rank, rank), dtype=torch.float64, device=data.device)
    slope = torch.zeros(rank, dtype=torch.float64, device=data.device)
    for block in data.blocks():
        score, slopes = contrast.score(block @ w)
        total += score.T @ block
        slope += slopes
    product = total.cpu().numpy() / data.n_rows @ rotation.T
    return _Pass(product, slope.cpu().numpy() / data.n_rows)


class _Search:
    """L-BFGS on the group of rotations; the trial is where the next pass looks."""

    def __init__(self, start: np.ndarray, *, sign: float) -> None:
        self.trial = start
        self.best = start
        self.gradient_rms = np.inf
        self.signs = np.full(len(start), sign)
        self._pairs: deque[tuple[np.ndarray, np.ndarray, float]] = deque(maxlen=_MEMORY)
        self._direction: np.ndarray | None = None
        self._gradient: np.ndarray | None = None
        self._curvature = np.ones_like(start)
        self._length, self._tries = 1.0, 0
        self._rejected = False

    def observe(self, here: _Pass, *, adaptive: bool) -> None:
        """Take in the pass at the trial: accept it, or mark it as a step that was too long."""
        excess = here.slope - np.diag(here.product)
        if adaptive:
            self._follow_signs(excess)
        gradient = _skew(self.signs[:, None] * here.product)
        if self._direction is not None and self._gradient is not None:
            before = float(np.sum(self._gradient * self._direction))
            after = float(np.sum(gradient * self._direction))
            if after > 0.9 * abs(before) and self._tries < _STEP_TRIES:
                self._rejected = True
                self._tries += 1
                # Where the slope, taken for a line, would vanish.
                self._length *= min(max(-before / (after - before), 0.1), 0.5)
                return
            move = self._length * self._direction
            change = gradient - self._gradient
            product = float(np.sum(move * change))
            # Only pairs of clear positive curvature keep the model of the Hessian positive.
            if product > 1e-8 * float(np.linalg.norm(move) * np.linalg.norm(change)):
                self._pairs.append((move, change, 1.0 / product))
        self._rejected = False
        self.best, self._gradient = self.trial, gradient
        half = 0.5 * self.signs * excess
        self._curvature = np.maximum(half[:, None] + half[None, :], _CURVATURE_FLOOR)
        rank = len(gradient)
        self.gradient_rms = float(np.linalg.norm(gradient) / np.sqrt(max(rank * (rank - 1), 1)))

    def _follow_signs(self, excess: np.ndarray) -> None:
        signs = np.where(excess < 0, -1.0, 1.0)
        if np.any(signs != self.signs):
            # The function that is minimised has changed: the memory is of another one.
            self._pairs.clear()
            self._direction = None
            self.signs = signs

    def step(self) -> None:
        """Set the next trial: along a new direction, or less far along the last one."""
        if not self._rejected or self._direction is None:
            self._direction = self._lbfgs_direction()
            self._length, self._tries = 1.0, 0
        self.trial = _cayley(self._length * self._direction) @ self.best

    def _lbfgs_direction(self) -> np.ndarray:
        assert self._gradient is not None
        q = self._gradient.copy()
        weights = []
        for move, change, inverse in reversed(self._pairs):
            weight = inverse * float(np.sum(move * q))
            weights.append(weight)
            q -= weight * change
        z = q / self._curvature
        for (move, change, inverse), weight in zip(self._pairs, reversed(weights), strict=True):
            z += (weight - inverse * float(np.sum(change * z))) * move
        return -z / max(1.0, float(np.abs(z).max()) / _LONGEST_STEP)


def _skew(matrix: np.ndarray) -> np.ndarray:
    return (matrix - matrix.T) / 2


def _cayley(skew: np.ndarray) -> np.ndarray:
    """Return (I − A/2)⁻¹(I + A/2), a rotation that agrees with exp(A) to second order."""
    identity = np.eye(len(skew))
    return np.linalg.solve(identity - skew / 2, identity + skew / 2)
