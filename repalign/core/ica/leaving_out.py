"""What ICA would have found without some of the rows, without searching again.

At the optimum the signed cross products E ψ(y) yᵀ of the components y are symmetric. Leaving a
few rows out unbalances them a little, and one Newton step balances them again: a change of scale
and correlation (the rows that are left are whitened) and a small rotation. It follows the optimum
that was found; a search from scratch may find another one, which is what starts are for.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float, Int

from repalign.aliases import Rows
from repalign.core.ica.components import IcaFit
from repalign.core.ica.contrast import CONTRASTS
from repalign.core.ica.data import drawn_rows
from repalign.core.moments import PairMoments
from repalign.core.rows import SubsetRows

# Curvatures of a plane below this are rounding or chance: two components nearly Gaussian.
_CURVATURE_FLOOR = 0.02
_LARGEST_ANGLE = 0.7
_BLOCK_ROWS = 4096
SUMS_BYTES = 2**26


class LeftOutIca:
    """The ICA of some rows, and what it would be without each bundle of them."""

    def __init__(
        self,
        fit: IcaFit,
        rows: Rows,
        bundle: Int[np.ndarray, " n"],
        used: Int[np.ndarray, " m"] | None = None,
    ) -> None:
        """Take a fit, the bundle of every row, and the rows that the fit was given, if not all."""
        given = np.arange(bundle.size) if used is None else used
        if fit.n_fit_rows < given.size:
            given = given[drawn_rows(given.size, fit.n_fit_rows, seed=fit.settings.seed)]
        self._fit, self._bundle = fit, bundle[given]
        self._rows = rows if given.size == bundle.size else SubsetRows(rows, given)
        self._at_once = max(SUMS_BYTES // (8 * fit.rank**2), 1)
        self._all = _sums(fit, self._rows, self._bundle, (0, self._at_once))
        self._known = self._all.by_bundle

    def without(self, number: int, rest: PairMoments) -> IcaFit:
        """Return the components without a bundle; ``rest`` are the moments of the other rows.

        One of components that were not whitened stays as it is.
        """
        fit, every, n = self._fit, self._all, self._bundle.size
        if fit.settings.whitening == "none":
            return fit
        n_left = n - int(np.count_nonzero(self._bundle == number))
        away = fit.unmixing @ (rest.mean_x - fit.mean)
        white, back = _whitening(fit.unmixing @ rest.sxx @ fit.unmixing.T / rest.n)
        slope, own = every.slope / n, np.diag(every.product) / n
        sign = np.where(slope < own, -1.0, 1.0)
        # what leaving out, moving the mean and whitening change of E ψ(y) yᵀ
        change = (every.product - self._of(number)) / n_left - every.product / n
        change -= np.outer(every.score / n, away)
        change += (slope + own)[:, None] * (white - np.eye(fit.rank))
        change *= sign[:, None]
        curvature = np.add.outer(sign * (slope - own), sign * (slope - own))
        turn = (change.T - change) / np.maximum(curvature, _CURVATURE_FLOOR)
        rotation = _rotation(np.clip(turn, -_LARGEST_ANGLE, _LARGEST_ANGLE))
        return replace(
            fit,
            mean=rest.mean_x,
            unmixing=rotation @ white @ fit.unmixing,
            mixing=fit.mixing @ back @ rotation.T,
        )

    def _of(self, number: int) -> Float[np.ndarray, "k k"]:
        """Return the cross products of a bundle; those of the next ones are read with it."""
        if number not in self._known:
            ahead = number, number + self._at_once
            chosen = np.flatnonzero((self._bundle >= ahead[0]) & (self._bundle < ahead[1]))
            rows = SubsetRows(self._rows, chosen)
            self._known = _sums(self._fit, rows, self._bundle[chosen], ahead).by_bundle
        # none of the rows that were fitted may be of the bundle
        return self._known.get(number, np.zeros_like(self._all.product))


@dataclass(frozen=True, eq=False)
class _Sums:
    """Over rows y: Σ ψ'(y), Σ ψ(y), Σ ψ(y) yᵀ, and the last of some bundles."""

    slope: Float[np.ndarray, " k"]
    score: Float[np.ndarray, " k"]
    product: Float[np.ndarray, "k k"]
    by_bundle: dict[int, Float[np.ndarray, "k k"]]


def _sums(fit: IcaFit, rows: Rows, bundle: Int[np.ndarray, " n"], wanted: tuple[int, int]) -> _Sums:
    contrast, k = CONTRASTS[fit.settings.contrast], fit.rank
    slope, score, product = np.zeros(k), np.zeros(k), np.zeros((k, k))
    inside = np.unique(bundle[(bundle >= wanted[0]) & (bundle < wanted[1])]).tolist()
    by_bundle = {number: np.zeros((k, k)) for number in inside}
    for start in range(0, rows.shape[0], _BLOCK_ROWS):
        here = bundle[start : start + _BLOCK_ROWS]
        x = rows.read(start, start + here.size).astype(np.float64)
        y = (x - fit.mean) @ fit.unmixing.T
        psi = y.copy()
        slope += contrast.score(torch.from_numpy(psi), torch.from_numpy(np.empty_like(y))).numpy()
        score += psi.sum(axis=0)
        is_other = (here < wanted[0]) | (here >= wanted[1])
        product += psi[is_other].T @ y[is_other]
        for number in np.unique(here[~is_other]).tolist():
            by_bundle[number] += psi[here == number].T @ y[here == number]
    return _Sums(slope, score, product + sum(by_bundle.values()), by_bundle)


def _whitening(
    covariance: Float[np.ndarray, "k k"],
) -> tuple[Float[np.ndarray, "k k"], Float[np.ndarray, "k k"]]:
    """Return the symmetric root of the inverse, and its inverse."""
    values, vectors = np.linalg.eigh(covariance)
    root = np.sqrt(np.maximum(values, np.finfo(np.float64).eps * values[-1]))
    return (vectors / root) @ vectors.T, (vectors * root) @ vectors.T


def _rotation(skew: Float[np.ndarray, "k k"]) -> Float[np.ndarray, "k k"]:
    identity = np.eye(len(skew))
    found: Float[np.ndarray, "k k"] = np.linalg.solve(identity - skew / 2, identity + skew / 2)
    return found
