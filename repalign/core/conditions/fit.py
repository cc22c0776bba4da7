"""Fitted conditions: whitening, ICA and the random rotation of one set of rows."""

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from jaxtyping import Float

from repalign.core.affine import AffineMap
from repalign.core.conditions.kinds import condition_kind
from repalign.core.ica.fit import fit_ica
from repalign.core.ica.settings import IcaSettings
from repalign.core.linalg import Whitening, fit_whitening, random_rotation
from repalign.core.rows import DEFAULT_MEMORY, ArrayRows, check_finite_block, check_not_vanishing
from repalign.exceptions import InputError


@dataclass(frozen=True, eq=False)
class Condition:
    """A representation's fitted transform, and what is to be known of the fit.

    ``n_iter`` and ``converged`` are None where nothing is iterated.
    """

    name: str
    transform: AffineMap
    n_iter: int | None = None
    converged: bool | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class ConditionFitter:
    """Fits the conditions of some rows; what several of them need is computed once.

    Attributes:
        values: n×d; no label, factor or batch is ever seen.
        ica: How ICA is fitted; its ``max_rank`` limits every whitened condition to the leading
            principal directions.
        memory_bytes: Cap on the working memory of ICA.
        device: Where ICA computes.
    """

    values: Float[np.ndarray, "n d"]
    ica: IcaSettings = field(default_factory=IcaSettings)
    memory_bytes: int = DEFAULT_MEMORY
    device: str = "cpu"

    def __post_init__(self) -> None:
        """Check that squares of the values neither overflow nor vanish."""
        largest = check_finite_block(self.values, first_row=0, name="the representation")
        check_not_vanishing(largest, name="the representation")

    def fit(self, name: str, seed: int = 0) -> Condition:
        """Fit one condition; ``seed`` draws the random rotation and the start of ICA.

        Raises InputError when the rows do not vary, there is no such condition, or the rows
        are fewer than the columns for ``ica``.
        """
        kind = condition_kind(name)
        ica = replace(self.ica, seed=seed)
        if kind.name == "raw":
            width = self.values.shape[1]
            return Condition(name, AffineMap(name, np.eye(width), np.zeros(width)))
        if kind.name == "pca+ica":
            return self._unmixed(name, ica)
        if kind.name == "ica":
            return self._unmixed(name, self._without_whitening(ica))
        matrix = self._whitening.matrix.T
        if kind.name == "pca+rotation":
            matrix = matrix @ random_rotation(self._whitening.rank, np.random.default_rng(seed))
        mean, _ = self._moments
        fitted = AffineMap(name, matrix, -mean @ matrix)
        return Condition(name, fitted, warnings=self._rank_note(self._whitening.rank))

    def _without_whitening(self, ica: IcaSettings) -> IcaSettings:
        """Return how rows are only centred and divided by one number before they are rotated."""
        n_rows, width = self.values.shape
        if n_rows < width:
            raise InputError(
                f"ICA without whitening needs at least as many rows as columns, got {n_rows} rows "
                f"of {width}"
            )
        # One solver can do it, in as many passes as the run allows.
        return replace(
            ica, whitening="none", solver="sklearn", max_rank=None, max_passes=ica.passes
        )

    @cached_property
    def _moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance."""
        mean = self.values.mean(axis=0, dtype=np.float64)
        centred = self.values - mean
        return mean, centred.T @ centred / self.values.shape[0]

    @cached_property
    def _whitening(self) -> Whitening:
        mean, covariance = self._moments
        return fit_whitening(
            mean,
            covariance,
            epsilon=float(np.finfo(self.values.dtype).eps),
            n_rows=self.values.shape[0],
            max_rank=self.ica.max_rank,
        )

    def _unmixed(self, name: str, ica: IcaSettings) -> Condition:
        mean, covariance = self._moments
        fit = fit_ica(
            ArrayRows(self.values),
            mean=mean,
            covariance=covariance,
            settings=ica,
            memory_bytes=self.memory_bytes,
            device=self.device,
        )
        notes = fit.warnings
        if ica.whitening != "none":
            notes = self._rank_note(fit.rank) + notes
        return Condition(
            name,
            replace(fit.to_components(), kind=name),
            n_iter=fit.n_iter,
            converged=fit.converged,
            warnings=notes,
        )

    def _rank_note(self, rank: int) -> tuple[str, ...]:
        width = self.values.shape[1]
        if rank in (width, self.ica.max_rank):
            return ()
        return (f"{rank} of {width} directions were kept: the others do not vary",)
