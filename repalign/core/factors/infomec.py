"""InfoMEC (Hsu et al. 2023): modularity, explicitness and compactness from mutual information."""

import warnings
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float

from repalign.core.factors.encoding import Factors
from repalign.core.factors.kinds import InfoMecPreset
from repalign.core.factors.mutual_info import (
    encode_classes,
    entropy,
    neighbour_mi_matrix,
    plug_in_mi_matrix,
)
from repalign.core.factors.scaling import z_scored
from repalign.core.score import Score, undefined

LOGISTIC_ITERATIONS = 100


@dataclass(frozen=True)
class InfoMecSettings:
    """The choices in which published implementations of InfoMEC differ.

    A latent is active when its range exceeds the largest range divided by ``range_divisor``
    (for discrete latents: ``discrete_range_divisor``; 0 asks only for a range above zero).
    ``without_information`` says what happens to a latent that no factor has information about,
    where the definition is 0/0: ``undefined`` makes the score undefined, ``skip`` leaves it out
    of the mean and names it.
    """

    n_neighbors: int = 10
    range_divisor: float = 20.0
    discrete_range_divisor: float = 0.0
    without_information: Literal["skip", "undefined"] = "skip"
    discrete_latents: bool = False


STANDARD = InfoMecSettings()
REFERENCE = InfoMecSettings(without_information="undefined")
TRAINING = InfoMecSettings(n_neighbors=3, range_divisor=8.0, discrete_range_divisor=8.0)
PRESETS: dict[InfoMecPreset, InfoMecSettings] = {
    "standard": STANDARD,
    "reference": REFERENCE,
    "training": TRAINING,
}


def infomec_preset(name: InfoMecPreset, *, discrete_latents: bool = False) -> InfoMecSettings:
    """Return the settings called ``name``."""
    return replace(PRESETS[name], discrete_latents=discrete_latents)


@dataclass(frozen=True, eq=False)
class MutualInformation:
    """Normalised mutual information of m factors (rows) and l latents (columns), and who counts."""

    nmi: Float[np.ndarray, "m l"]
    active: Bool[np.ndarray, " l"]


def normalised_mi(
    factors: Factors,
    latents: Float[np.ndarray, "n l"],
    settings: InfoMecSettings,
    rng: np.random.Generator,
) -> MutualInformation:
    """Mutual information of every factor with every latent, over the entropy of the factor."""
    ranges = latents.max(axis=0) - latents.min(axis=0)
    if settings.discrete_latents:
        codes = np.stack([encode_classes(column) for column in latents.T], axis=1)
        mi = plug_in_mi_matrix(factors.codes, codes)
        divisor = settings.discrete_range_divisor
    else:
        mi = neighbour_mi_matrix(factors.codes, latents, n_neighbors=settings.n_neighbors, rng=rng)
        divisor = settings.range_divisor
    entropies = np.array([entropy(column) for column in factors.codes.T])
    threshold = ranges.max() / divisor if divisor else 0.0
    return MutualInformation(nmi=mi / entropies[:, None], active=ranges > threshold)


def modularity(information: MutualInformation, settings: InfoMecSettings) -> Score:
    """InfoM: the mean share of the best factor in what an active latent knows, rescaled to 0..1."""
    n_factors = information.nmi.shape[0]
    if n_factors == 1:
        return undefined("InfoM", "modularity needs at least two factors, got 1")
    return _ratio("InfoM", information.nmi[:, information.active].T, settings, "latent")


def compactness(information: MutualInformation, settings: InfoMecSettings) -> Score:
    """InfoC: the mean share of the best active latent in what is known of a factor, rescaled."""
    n_active = int(information.active.sum())
    if n_active == 1:
        return undefined("InfoC", "compactness needs at least two active latents, got 1")
    return _ratio("InfoC", information.nmi[:, information.active], settings, "factor")


def modularity_gap(information: MutualInformation) -> Score:
    """Mean gap between the best and the second-best factor of an active latent."""
    return _gap("InfoM-gap", information.nmi[:, information.active].T, "factors")


def compactness_gap(information: MutualInformation) -> Score:
    """Mean gap between the best and the second-best latent of a factor, inactive ones included."""
    return _gap("InfoC-gap", information.nmi, "latents")


def uninformative(information: MutualInformation) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the active latents, and the factors, between which no information was found."""
    active = np.flatnonzero(information.active)
    known = information.nmi[:, active]
    return (
        tuple(active[known.max(axis=0, initial=0.0) == 0].tolist()),
        tuple(np.flatnonzero(known.max(axis=1, initial=0.0) == 0).tolist()),
    )


def explicitness_per_factor(
    factors: Factors, latents: Float[np.ndarray, "n l"], *, discrete_latents: bool = False
) -> tuple[Float[np.ndarray, " m"], tuple[str, ...]]:
    """Share of every factor's uncertainty that a linear read-out removes, in-sample, and notes.

    Discrete factor of K classes: 1 − (log loss of a class-balanced logistic regression) / ln K,
    which is what the same regression loses on a constant input. Continuous factor: R² of least
    squares. Latents are z-scored; none is pruned; discrete latents are one-hot.
    """
    inputs = _one_hot(latents) if discrete_latents else z_scored(latents)
    values, unfinished = [], []
    for j, name in enumerate(factors.names):
        if factors.is_discrete[j]:
            loss, is_converged = _logistic_loss(inputs, factors.codes[:, j])
            values.append(1.0 - loss / np.log(factors.codes[:, j].max() + 1))
            if not is_converged:
                unfinished.append(name)
        else:
            dense = inputs if isinstance(inputs, np.ndarray) else inputs.toarray()
            values.append(_r_squared(dense, factors.values[:, j]))
    notes: tuple[str, ...] = ()
    if unfinished:
        notes = (
            f"the logistic regression of InfoE stopped at {LOGISTIC_ITERATIONS} iterations for "
            f"{', '.join(unfinished)} (as the definition asks)",
        )
    return np.array(values), notes


def explicitness(
    factors: Factors, latents: Float[np.ndarray, "n l"], *, discrete_latents: bool = False
) -> tuple[Score, tuple[str, ...]]:
    """InfoE: the mean of ``explicitness_per_factor``, and its notes."""
    n_rows, n_latents = latents.shape
    if n_rows <= n_latents + 1:
        reason = f"{n_rows} rows are fitted perfectly by {n_latents} latents, whatever they hold"
        return undefined("InfoE", reason), ()
    values, notes = explicitness_per_factor(factors, latents, discrete_latents=discrete_latents)
    return Score("InfoE", float(values.mean())), notes


def _ratio(name: str, shares: Any, settings: InfoMecSettings, of: str) -> Score:
    """Mean of max / sum over rows, rescaled so that equal shares give 0; ``of`` names the rows."""
    totals = shares.sum(axis=1)
    empty = totals == 0
    if empty.any() and settings.without_information == "undefined":
        return undefined(
            name, f"{int(empty.sum())} {of}(s) without any estimated information give 0/0"
        )
    if empty.all():
        return undefined(name, "no information was found between any latent and any factor")
    uniform = 1.0 / shares.shape[1]
    mean = float((shares.max(axis=1)[~empty] / totals[~empty]).mean())
    return Score(name, (mean - uniform) / (1.0 - uniform))


def _gap(name: str, information: Any, across: str) -> Score:
    if information.shape[1] < 2:
        return undefined(name, f"a gap needs at least two {across}, got {information.shape[1]}")
    if information.shape[0] == 0:
        return undefined(name, "no latent is active")
    ordered = np.sort(information, axis=1)
    return Score(name, float((ordered[:, -1] - ordered[:, -2]).mean()))


def _one_hot(latents: Any) -> Any:
    from sklearn.preprocessing import OneHotEncoder

    return OneHotEncoder().fit_transform(latents)


def _logistic_loss(inputs: Any, codes: Any) -> tuple[float, bool]:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(
        C=np.inf, tol=1e-4, class_weight="balanced", max_iter=LOGISTIC_ITERATIONS
    )
    with warnings.catch_warnings():
        # Separable data never converge; the caller says so in a note.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(inputs, codes)
    probabilities = model.predict_proba(inputs)[np.arange(codes.size), codes]
    loss = -np.log(np.maximum(probabilities, np.finfo(np.float64).eps)).mean()
    return float(loss), bool(model.n_iter_.max() < LOGISTIC_ITERATIONS)


def _r_squared(inputs: Any, target: Any) -> float:
    design = np.column_stack([inputs, np.ones(inputs.shape[0])])
    residual = target - design @ np.linalg.lstsq(design, target, rcond=None)[0]
    return float(1.0 - residual @ residual / np.sum((target - target.mean()) ** 2))
