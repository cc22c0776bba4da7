"""Orthogonal ICA by preconditioned L-BFGS on rotations (Picard-O).

The method of Ablin, Cardoso and Gramfort (ICASSP 2018), which has the fixed points of symmetric
FastICA: over rotations W of whitened rows z, stationary points of Σ_i s_i E G(y_i), y = W z,
where the sign s_i is that of E ψ'_i − E y_i ψ_i (for log cosh: +1 for components of heavier
tails than the Gaussian, −1 for lighter).
One pass over the rows gives A = E ψ(y) zᵀ, from which the relative gradient is the skew part of
diag(s) A Wᵀ, and E ψ'(y), from which the curvature along a plane (i, j) is about
(s_i(E ψ'_i − E y_i ψ_i) + s_j(E ψ'_j − E y_j ψ_j)) / 2.

No loss is computed: a step is accepted when the slope along it has not turned uphill by more
than the slope it began with, so that every pass also serves the next step.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float

from repalign.core.ica_contrast import Contrast
from repalign.core.ica_data import WhitenedRows

_MEMORY = 10
_CURVATURE_FLOOR = 0.01
_SUPER_GAUSSIAN_PASSES = 20
_STEP_TRIES = 4
_UPHILL = 0.9
_STEEPEST = 30.0
_COARSE_RMS = 1.5e-4
_COARSE_PATIENCE = 40


@dataclass(frozen=True, eq=False)
class RotationFit:
    """Where the search for a rotation ended.

    Attributes:
        rotation: W, k×k, orthogonal.
        passes: Passes over the rows.
        gradient_rms: Root mean square of the skew gradient off the diagonal.
        converged: The gradient reached the tolerance.
    """

    rotation: Float[np.ndarray, "k k"]
    passes: int
    gradient_rms: float
    converged: bool


@dataclass(frozen=True, eq=False)
class _Pass:
    """What one pass over the rows gives, without signs.

    Attributes:
        product: E ψ(y) yᵀ, k×k.
        slope: E ψ'(y), length k.
    """

    product: torch.Tensor
    slope: torch.Tensor


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

    The first passes take all components for super-Gaussian; then every sign follows its
    component. It ends when the gradient is below the tolerance or after ``max_passes``.
    """
    first = torch.from_numpy(start).to(device=data.device, dtype=torch.float64)
    search = _Search(first, sign=contrast.super_gaussian_sign)
    phase = _CoarsePhase(is_on=data.coarse is not None, limit=max_passes // 2)
    for done in range(1, max_passes + 1):
        coarse = phase.is_on
        here = _measure(data, contrast, search.trial, coarse=coarse)
        if on_progress is not None:
            on_progress(done, max_passes)
        search.observe(here, adaptive=done > _SUPER_GAUSSIAN_PASSES)
        if done > _SUPER_GAUSSIAN_PASSES and not coarse and search.gradient_rms < tolerance:
            return RotationFit(search.rotation, done, search.gradient_rms, converged=True)
        if coarse and phase.ends(done, search.gradient_rms):
            search.look_again()
        else:
            search.step()
    return RotationFit(search.rotation, max_passes, search.gradient_rms, converged=False)


class _CoarsePhase:
    """The first part of the search, on rounded rows, and when to leave it.

    Rounding moves the gradient by up to 5e-5; above ``_COARSE_RMS`` it does not matter.
    """

    def __init__(self, *, is_on: bool, limit: int) -> None:
        self.is_on = is_on
        self._limit = limit
        self._lowest, self._lowest_at = float("inf"), 0

    def ends(self, done: int, gradient_rms: float) -> bool:
        """Whether the pass just done was the last: near the optimum, stuck, or long enough."""
        if done <= _SUPER_GAUSSIAN_PASSES:
            return False
        if gradient_rms < self._lowest:
            self._lowest, self._lowest_at = gradient_rms, done
        stuck = done - self._lowest_at >= _COARSE_PATIENCE
        self.is_on = not (gradient_rms < _COARSE_RMS or stuck or done >= self._limit)
        return not self.is_on


def _measure(
    data: WhitenedRows, contrast: Contrast, rotation: torch.Tensor, *, coarse: bool
) -> _Pass:
    w = rotation.T.contiguous().to(torch.bfloat16 if coarse else torch.float32)
    total = torch.zeros_like(rotation)
    slope = torch.zeros_like(rotation[0])
    for block in data.blocks(coarse=coarse):
        score, slopes = contrast.score((block @ w).float())
        total += score.to(block.dtype).T @ block
        slope += slopes
    return _Pass((total / data.n_rows) @ rotation.T, slope / data.n_rows)


class _Search:
    """L-BFGS on the group of rotations; the trial is where the next pass looks."""

    def __init__(self, start: torch.Tensor, *, sign: float) -> None:
        self.trial = start
        self.best = start
        self.gradient_rms = float("inf")
        self._signs = torch.full_like(start[0], sign)
        self._pairs: deque[tuple[torch.Tensor, torch.Tensor, float]] = deque(maxlen=_MEMORY)
        self._gradient = torch.zeros_like(start)
        self._curvature = torch.ones_like(start)
        self._direction: torch.Tensor | None = None
        self._length, self._tries = 1.0, 0
        self._is_rejected = False

    def observe(self, here: _Pass, *, adaptive: bool) -> None:
        """Take in the pass at the trial: accept it, or mark it as a step that was too long."""
        excess = here.slope - here.product.diagonal()
        if adaptive:
            self._follow_signs(excess)
        gradient = _skew(self._signs[:, None] * here.product)
        self._is_rejected = self._direction is not None and self._overshoots(gradient)
        if self._is_rejected:
            return
        if self._direction is not None:
            self._remember(self._length * self._direction, gradient - self._gradient)
        self.best, self._gradient = self.trial, gradient
        half = 0.5 * self._signs * excess
        self._curvature = (half[:, None] + half[None, :]).clamp_(min=_CURVATURE_FLOOR)
        rank = len(gradient)
        norm = float(torch.linalg.norm(gradient))
        self.gradient_rms = norm / max(rank * (rank - 1), 1) ** 0.5

    @property
    def rotation(self) -> Float[np.ndarray, "k k"]:
        """The best point so far."""
        return self.best.cpu().numpy()

    def look_again(self) -> None:
        """Let the next pass look at the best point once more, as if no step had led there."""
        self.trial, self._direction, self._is_rejected = self.best, None, False
        self._pairs.clear()

    def _follow_signs(self, excess: torch.Tensor) -> None:
        signs = torch.where(excess < 0, -1.0, 1.0).to(excess.dtype)
        if not torch.equal(signs, self._signs):
            # The function that is minimised has changed: the memory is of another one.
            self._pairs.clear()
            self._direction = None
            self._signs = signs

    def _overshoots(self, gradient: torch.Tensor) -> bool:
        """Whether the slope along the step has turned uphill, and shorten the step if so."""
        assert self._direction is not None
        before, after = _dot(self._gradient, self._direction), _dot(gradient, self._direction)
        if after <= _UPHILL * abs(before) or self._tries >= _STEP_TRIES:
            return False
        self._tries += 1
        # Where the slope, taken for a straight line, would vanish.
        self._length *= min(max(-before / (after - before), 0.1), 0.5)
        return True

    def _remember(self, move: torch.Tensor, change: torch.Tensor) -> None:
        product = _dot(move, change)
        length, rise = float(torch.linalg.norm(move)), float(torch.linalg.norm(change))
        # Pairs of no clear positive curvature would make the model of the Hessian indefinite;
        # pairs far steeper than the curvature are rounding, and would stop the search.
        steepest = _STEEPEST * float(self._curvature.max())
        if product > 1e-8 * length * rise and rise < steepest * length:
            self._pairs.append((move, change, 1.0 / product))

    def step(self) -> None:
        """Set the next trial: along a new direction, or less far along the last one."""
        if not self._is_rejected or self._direction is None:
            self._direction = self._lbfgs_direction()
            self._length, self._tries = 1.0, 0
        self.trial = _cayley(self._length * self._direction) @ self.best

    def _lbfgs_direction(self) -> torch.Tensor:
        q = self._gradient.clone()
        weights = []
        for move, change, inverse in reversed(self._pairs):
            weight = inverse * _dot(move, q)
            weights.append(weight)
            q.sub_(change, alpha=weight)
        z = q.div_(self._curvature)
        for (move, change, inverse), weight in zip(self._pairs, reversed(weights), strict=True):
            z.add_(move, alpha=weight - inverse * _dot(change, z))
        return z.neg_()


def _dot(a: torch.Tensor, b: torch.Tensor) -> float:
    return float(torch.dot(a.reshape(-1), b.reshape(-1)))


def _skew(matrix: torch.Tensor) -> torch.Tensor:
    return (matrix - matrix.T) / 2


def _cayley(skew: torch.Tensor) -> torch.Tensor:
    """Return (I − A/2)⁻¹(I + A/2), a rotation that agrees with exp(A) to second order."""
    identity = torch.eye(len(skew), dtype=skew.dtype, device=skew.device)
    return torch.linalg.solve(identity - skew / 2, identity + skew / 2)
