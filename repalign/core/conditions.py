"""The forms in which a representation is judged: raw, whitened, ICA, and its random control."""

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from jaxtyping import Float

from repalign.core.ica.fit import fit_ica
from repalign.core.ica.picard import random_rotation
from repalign.core.ica.settings import IcaSettings
from repalign.core.maps.affine import AffineMap
from repalign.core.rows import ArrayRows
from repalign.core.whitening import fit_whitening
from repalign.exceptions import InputError

ConditionName = Literal["raw", "pca", "pca+ica", "pca+rotation", "ica"]
CONDITIONS: tuple[ConditionName, ...] = ("raw", "pca", "pca+ica", "pca+rotation", "ica")


@dataclass(frozen=True)
class ConditionSettings:
    """How whitening and ICA are fitted; ``seed`` draws the random rotation.

    ``ica.max_rank`` limits every whitened condition to the leading principal directions.
    """

    ica: IcaSettings = field(default_factory=IcaSettings)
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Condition:
    """A representation's fitted transform, and what is to be known of the fit.

    ``n_iter`` and ``converged`` are None where nothing is iterated.
    """

    name: ConditionName
    transform: AffineMap
    n_iter: int | None = None
    converged: bool | None = None
    warnings: tuple[str, ...] = ()


def check_condition_names(names: tuple[str, ...]) -> tuple[ConditionName, ...]:
    """Return the names as conditions, in the order given.

    Raises InputError on an unknown or repeated name, or on none.
    """
    known: dict[str, ConditionName] = {condition: condition for condition in CONDITIONS}
    for name in names:
        if name not in known:
            raise InputError(f"no condition is called {name}; expected {', '.join(CONDITIONS)}")
    if not names or len(set(names)) < len(names):
        raise InputError(f"conditions {', '.join(names) or '(none)'}; expected each one once")
    return tuple(known[name] for name in names)


def fit_condition(
    name: ConditionName,
    values: Float[np.ndarray, "n d"],
    settings: ConditionSettings | None = None,
) -> Condition:
    """Fit a condition on rows alone: it sees no label, factor or batch.

    * ``raw``: the identity.
    * ``pca``: centred and whitened on all directions of the numerical rank.
    * ``pca+ica``: whitened, then rotated to independent components.
    * ``pca+rotation``: whitened, then rotated at random: the control of ``pca+ica``.
    * ``ica``: centred and divided by one number, then rotated; inactive latents stay small.

    Raises InputError when the rows do not vary, or are fewer than the columns for ``ica``.
    """
    settings = settings or ConditionSettings()
    if name == "raw":
        width = values.shape[1]
        return Condition("raw", AffineMap("raw", np.eye(width), np.zeros(width)))
    mean, covariance = _mean_and_covariance(values)
    if name in ("pca+ica", "ica"):
        return _ica_condition(name, values, mean, covariance, settings)
    whitening = fit_whitening(
        mean,
        covariance,
        epsilon=float(np.finfo(values.dtype).eps),
        n_rows=values.shape[0],
        max_rank=settings.ica.max_rank,
    )
    matrix = whitening.matrix.T
    if name == "pca+rotation":
        matrix = matrix @ random_rotation(whitening.rank, np.random.default_rng(settings.seed))
    return Condition(
        name,
        AffineMap(name, matrix, -mean @ matrix),
        warnings=_rank_note(values, whitening.rank, settings),
    )


def _mean_and_covariance(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    mean = values.mean(axis=0, dtype=np.float64)
    centred = values - mean
    return mean, centred.T @ centred / values.shape[0]


def _rank_note(values: np.ndarray, rank: int, settings: ConditionSettings) -> tuple[str, ...]:
    width = values.shape[1]
    if rank in (width, settings.ica.max_rank):
        return ()
    return (f"{rank} of {width} directions were kept: the others do not vary",)


def _ica_condition(
    name: ConditionName,
    values: np.ndarray,
    mean: np.ndarray,
    covariance: np.ndarray,
    settings: ConditionSettings,
) -> Condition:
    ica = settings.ica
    if name == "ica":
        if values.shape[0] < values.shape[1]:
            raise InputError(
                f"ICA without whitening needs at least as many rows as columns, got "
                f"{values.shape[0]} rows of {values.shape[1]}"
            )
        ica = replace(ica, whitening="none", solver="sklearn", max_rank=None)
    fit = fit_ica(ArrayRows(values), mean=mean, covariance=covariance, settings=ica)
    notes = fit.warnings if name == "ica" else _rank_note(values, fit.rank, settings) + fit.warnings
    return Condition(
        name,
        replace(fit.to_components(), kind=name),
        n_iter=fit.n_iter,
        converged=fit.converged,
        warnings=notes,
    )
