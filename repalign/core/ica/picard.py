"""Orthogonal ICA by preconditioned L-BFGS on rotations (Picard-O).

The method of Ablin, Cardoso and Gramfort (ICASSP 2018), which has the fixed points of symmetric
FastICA: over rotations W of whitened rows z, stationary points of Σ_i s_i E G(y_i), y = W z,
where the sign s_i is that of E ψ'_i − E y_i ψ_i (for log cosh: +1 for components of heavier
tails than the Gaussian, −1 for lighter). One pass over the rows gives A = E ψ(y) zᵀ, from which
the relative gradient is the skew part of diag(s) A Wᵀ, and E ψ'(y), from which the curvature
along a plane (i, j) is about (s_i(E ψ'_i − E y_i ψ_i) + s_j(E ψ'_j − E y_j ψ_j)) / 2.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float

from repalign.core.ica.contrast import Contrast, measure_contrast
from repalign.core.ica.data import WhitenedRows
from repalign.core.ica.search import RotationSearch
from repalign.core.linalg import random_rotation

_FIXED_SIGN_PASSES = 20
_COARSE_RMS = 1.5e-4
_COARSE_PATIENCE = 40
# Components fitted to Gaussian data have excesses of up to about this times √(k / n).
_HEAVY_EXCESS = 0.5
_SMALL_SEARCH = 32


@dataclass(frozen=True, eq=False)
class RotationFit:
    """Where the search for a rotation ended.

    Attributes:
        rotation: W, k×k, orthogonal.
        passes: Passes over the rows.
        gradient_rms: Root mean square of the skew gradient off the diagonal.
        converged: The gradient reached the tolerance.
        excess: E ψ'(y) − E y ψ(y) of each component.
    """

    rotation: Float[np.ndarray, "k k"]
    passes: int
    gradient_rms: float
    converged: bool
    excess: Float[np.ndarray, " k"]


@dataclass(frozen=True)
class Stopping:
    """When a search ends.

    Attributes:
        max_passes: Passes over the rows.
        tolerance: Root mean square of the gradient that counts as converged.
    """

    max_passes: int
    tolerance: float


def fit_rotation(
    data: WhitenedRows,
    contrast: Contrast,
    start: Float[np.ndarray, "k k"],
    *,
    stopping: Stopping,
    seed: int = 0,
    on_progress: Callable[[int, int], None] | None = None,
) -> RotationFit:
    """Search for the rotation to independent components, from an orthogonal start.

    The first passes take all components for super-Gaussian, which finds those more surely than
    signs that flip while nothing is separated; then every sign follows its component. Where
    sources are sub-Gaussian this ends with them mixed as evenly as possible, at a stationary
    point that no sign can leave. So the components of no heavier tails than a fit of Gaussian
    data are turned at random (``seed``) among themselves; if they then have lighter tails than
    the Gaussian, they are searched again, by themselves, as sub-Gaussian, and the better of the
    two rotations is returned.
    """
    sign = contrast.super_gaussian_sign
    found = _descend(data, contrast, start, sign, stopping, on_progress)
    rank = len(start)
    heavy = _HEAVY_EXCESS * np.sqrt(rank / data.n_rows)
    weak = np.flatnonzero(sign * found.excess < heavy)
    left = stopping.max_passes - found.passes
    if len(weak) < 2 or left < 2:
        return found
    part = data.project(found.rotation[weak])
    turn = random_rotation(len(weak), np.random.default_rng(seed))
    here = measure_contrast(part, contrast, _tensor(turn, data.device))
    # About one standard deviation of this mean for Gaussian components; a small search costs
    # less than missing something.
    noise = 1.0 / np.sqrt(len(weak) * data.n_rows) if len(weak) > _SMALL_SEARCH else 0.0
    if sign * float(here.excess.mean()) > -noise:
        return found
    again = _descend(part, contrast, turn, -sign, Stopping(left, stopping.tolerance), None)
    rotation = found.rotation.copy()
    rotation[weak] = again.rotation @ rotation[weak]
    rest = Stopping(max(left - again.passes, 1), stopping.tolerance)
    last = _descend(data, contrast, rotation, None, rest, on_progress)
    passes = found.passes + again.passes + last.passes + 1
    better = last if np.abs(last.excess).sum() > np.abs(found.excess).sum() else found
    return replace(better, passes=passes)


def _descend(
    data: WhitenedRows,
    contrast: Contrast,
    start: Float[np.ndarray, "k k"],
    sign: float | None,
    stopping: Stopping,
    on_progress: Callable[[int, int], None] | None,
) -> RotationFit:
    """Descend from a start, at first with one sign for all; with None each sign is free."""
    search = RotationSearch(_tensor(start, data.device), sign=sign or 1.0)
    phase = _CoarsePhase(
        is_on=data.coarse is not None and sign is not None, limit=stopping.max_passes // 2
    )
    is_fixed, converged, done = sign is not None, False, 0
    for done in range(1, stopping.max_passes + 1):
        coarse = phase.is_on
        here = measure_contrast(data, contrast, search.trial, coarse=coarse)
        if on_progress is not None:
            on_progress(done, stopping.max_passes)
        search.observe(here, adaptive=not is_fixed)
        settled = search.gradient_rms < stopping.tolerance
        if settled and not is_fixed and not coarse:
            converged = True
            break
        if is_fixed:
            is_fixed = not settled and done < _FIXED_SIGN_PASSES
        if coarse and not is_fixed and phase.ends(done, search.gradient_rms):
            search.look_again()
        else:
            search.step()
    excess = search.excess.cpu().numpy()
    return RotationFit(search.rotation, done, search.gradient_rms, converged, excess)


def _tensor(matrix: Float[np.ndarray, "k k"], device: str) -> torch.Tensor:
    return torch.from_numpy(matrix).to(device=device, dtype=torch.float64)


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
        if gradient_rms < self._lowest:
            self._lowest, self._lowest_at = gradient_rms, done
        stuck = done - self._lowest_at >= _COARSE_PATIENCE
        self.is_on = not (gradient_rms < _COARSE_RMS or stuck or done >= self._limit)
        return not self.is_on
