"""Quasi-Newton descent over rotations: where to look next, given what a pass found.

L-BFGS (limited memory) in the tangent space, preconditioned by the curvature of each plane. No
loss is computed: a step is accepted unless the slope along it has turned uphill by nearly as
much as it fell at the beginning, so that every pass over the rows also serves the next step.
"""

from collections import deque

import numpy as np
import torch
from jaxtyping import Float

from repalign.core.ica.contrast import ContrastPass

_MEMORY = 10
_CURVATURE_FLOOR = 0.01
_STEP_TRIES = 4
_UPHILL = 0.9
_FLATTEST = 1e-3
_STEEPEST = 30.0
_LARGEST_ANGLE = 0.7


class RotationSearch:
    """L-BFGS on the group of rotations; the trial is where the next pass looks."""

    def __init__(self, start: torch.Tensor, *, sign: float) -> None:
        self.trial = start
        self.best = start
        self.gradient_rms = float("inf")
        self._signs = torch.full_like(start[0], sign)
        self.excess = torch.zeros_like(start[0])
        self._pairs: deque[tuple[torch.Tensor, torch.Tensor, float]] = deque(maxlen=_MEMORY)
        self._gradient = torch.zeros_like(start)
        self._curvature = torch.ones_like(start)
        self._direction: torch.Tensor | None = None
        self._length, self._tries = 1.0, 0
        self._is_rejected = False

    def observe(self, here: ContrastPass, *, adaptive: bool) -> None:
        """Take in the pass at the trial: accept it, or mark it as a step that was too long."""
        excess = here.excess
        if adaptive:
            self._follow_signs(excess)
        gradient = _skew(self._signs[:, None] * here.product)
        self._is_rejected = self._direction is not None and self._overshoots(gradient)
        if self._is_rejected:
            return
        if self._direction is not None:
            self._remember(self._length * self._direction, gradient - self._gradient)
        self.best, self._gradient, self.excess = self.trial, gradient, excess
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
        # Pairs of hardly any curvature would make steps explode, pairs far steeper than the
        # curvature (they are rounding) would make them vanish.
        flattest = _FLATTEST * length**2
        steepest = _STEEPEST * float(self._curvature.max()) * length
        if product > flattest and rise < steepest:
            self._pairs.append((move.flatten(), change.flatten(), 1.0 / product))

    def step(self) -> None:
        """Set the next trial: along a new direction, or less far along the last one."""
        if not self._is_rejected or self._direction is None:
            direction = self._lbfgs_direction()
            # The model is local: no plane is turned by more than this many radians. Singular
            # values of skew matrices come in pairs, so half the squared norm bounds the largest.
            if float(torch.linalg.norm(direction)) > _LARGEST_ANGLE * 2**0.5:
                direction = direction * min(1.0, _LARGEST_ANGLE / _largest_angle(direction))
            self._direction = direction
            self._length, self._tries = 1.0, 0
        self.trial = _cayley(self._length * self._direction) @ self.best

    def _lbfgs_direction(self) -> torch.Tensor:
        q = self._gradient.flatten().clone()
        weights = []
        for move, change, inverse in reversed(self._pairs):
            weight = inverse * float(torch.dot(move, q))
            weights.append(weight)
            q.sub_(change, alpha=weight)
        z = q.div_(self._curvature.flatten())
        for (move, change, inverse), weight in zip(self._pairs, reversed(weights), strict=True):
            z.add_(move, alpha=weight - inverse * float(torch.dot(change, z)))
        return z.neg_().view_as(self._gradient)


def _dot(a: torch.Tensor, b: torch.Tensor) -> float:
    return float(torch.dot(a.flatten(), b.flatten()))


def _skew(matrix: torch.Tensor) -> torch.Tensor:
    return (matrix - matrix.T) / 2


def _largest_angle(skew: torch.Tensor) -> float:
    """Return the spectral norm of a skew matrix, by power iteration: within a few percent."""
    vector = torch.ones_like(skew[0]) + torch.linspace(0, 1, len(skew)).to(skew)
    norm = 0.0
    for _ in range(10):
        vector = vector / torch.linalg.norm(vector)
        vector = skew @ vector
        norm = float(torch.linalg.norm(vector))
        if norm == 0.0:
            break
    return max(norm, 1e-300)


def _cayley(skew: torch.Tensor) -> torch.Tensor:
    """Return (I − A/2)⁻¹(I + A/2), a rotation that agrees with exp(A) to second order."""
    identity = torch.eye(len(skew), dtype=skew.dtype, device=skew.device)
    return torch.linalg.solve(identity - skew / 2, identity + skew / 2)
