"""Disentanglement scores of the years before InfoMEC: MIG, SAP, modularity, explicitness, DCI.

Definitions follow disentanglement_lib (Locatello et al. 2019), including its constants. Scores
that train a predictor train on the first two thirds of the rows and test on the rest.
"""

import warnings
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.stats import entropy as relative_entropy

from repalign.core.factors.encoding import Factors
from repalign.core.factors.mutual_info import entropy, equal_width_bins, plug_in_mi_matrix
from repalign.core.factors.scaling import z_scored
from repalign.core.score import Score, undefined

N_BINS = 20
TRAIN_SHARE = 2 / 3
DCI_PARTS = (
    "DCI-disentanglement",
    "DCI-completeness",
    "DCI-informativeness",
    "DCI-informativeness-train",
)


def binned_mi(factors: Factors, latents: Float[np.ndarray, "n l"]) -> Float[np.ndarray, "m l"]:
    """Plug-in mutual information with every latent cut into 20 bins of equal width, in nats."""
    return plug_in_mi_matrix(factors.codes, equal_width_bins(latents, N_BINS))


def mutual_information_gap(factors: Factors, mi: Float[np.ndarray, "m l"]) -> Score:
    """MIG: how far the best latent of a factor leads the second, over the factor's entropy."""
    if mi.shape[1] < 2:
        return undefined("MIG", f"a gap needs at least two latents, got {mi.shape[1]}")
    entropies = np.array([entropy(column) for column in factors.codes.T])
    ordered = np.sort(mi, axis=1)
    return Score("MIG", float(((ordered[:, -1] - ordered[:, -2]) / entropies).mean()))


def squared_modularity(mi: Float[np.ndarray, "m l"]) -> Score:
    """Modularity (Ridgeway & Mozer 2018): squared information off the best factor of a latent.

    A latent without information counts as 0.
    """
    n_factors = mi.shape[0]
    if n_factors < 2:
        return undefined("modularity", "modularity needs at least two factors, got 1")
    squared = mi.T**2
    best = squared.max(axis=1)
    rest = squared.sum(axis=1) - best
    per_latent = 1.0 - rest / np.where(best > 0, best * (n_factors - 1), 1.0)
    return Score("modularity", float(np.where(best > 0, per_latent, 0.0).mean()))


def ranking_explicitness(factors: Factors, latents: Float[np.ndarray, "n l"]) -> Score:
    """Explicitness (Ridgeway & Mozer 2018): held-out AUROC of a linear read-out.

    The mean over the classes, each against the rest, of the discrete factors; 0.5 is chance.
    Latents are z-scored by the training rows first: the read-out is penalised, and would fall
    short for no other reason than that latents are small.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score

    train, test = _split(latents.shape[0])
    latents = z_scored(latents, by=train)
    per_factor = []
    for j in np.flatnonzero(factors.is_discrete):
        codes = factors.codes[:, j]
        if np.unique(codes[train]).size < 2:
            continue
        model = _quietly_fitted(LogisticRegression(max_iter=1000), latents[train], codes[train])
        probabilities = model.predict_proba(latents[test])
        areas = [
            roc_auc_score(codes[test] == label, probabilities[:, k])
            for k, label in enumerate(model.classes_)
            if 0 < np.sum(codes[test] == label) < codes[test].size
        ]
        if areas:
            per_factor.append(float(np.mean(areas)))
    if not per_factor:
        return undefined("explicitness", "no discrete factor has two classes in both row splits")
    return Score("explicitness", float(np.mean(per_factor)))


def separated_predictability(factors: Factors, latents: Float[np.ndarray, "n l"]) -> Score:
    """SAP: how far the best single latent leads the second in predicting a factor.

    Discrete factors by the test accuracy of a linear support vector machine on one latent,
    continuous ones by squared correlation on the training rows.
    """
    if latents.shape[1] < 2:
        return undefined("SAP", "a gap needs at least two latents, got 1")
    train, test = _split(latents.shape[0])
    table = squared_correlations(latents[train], factors.values[train])
    for j in np.flatnonzero(factors.is_discrete):
        codes = factors.codes[:, j]
        if np.unique(codes[train]).size < 2:
            return undefined("SAP", f"factor {factors.names[j]} has one class in the training rows")
        table[:, j] = [
            _single_latent_accuracy(latents[:, [i]], codes, train, test)
            for i in range(latents.shape[1])
        ]
    return Score("SAP", _mean_lead(table))


def squared_correlations(
    latents: Float[np.ndarray, "n l"], values: Float[np.ndarray, "n m"]
) -> Float[np.ndarray, "l m"]:
    """Squared Pearson correlation of every latent and factor; 0 for a variance below 1e-12."""
    centred, factor_centred = latents - latents.mean(axis=0), values - values.mean(axis=0)
    n_rows = latents.shape[0]
    variance = (centred**2).sum(axis=0)[:, None] / n_rows
    factor_variance = (factor_centred**2).sum(axis=0)[None, :] / n_rows
    defined = (variance > 1e-12) & (factor_variance > 1e-12)
    squared = (centred.T @ factor_centred / n_rows) ** 2
    return np.where(defined, squared / np.where(defined, variance * factor_variance, 1.0), 0.0)


def dci(factors: Factors, latents: Float[np.ndarray, "n l"], *, seed: int) -> tuple[Score, ...]:
    """DCI (Eastwood & Williams 2018): disentanglement, completeness, informativeness (test, train).

    Importances are those of one gradient-boosted tree ensemble for each factor, with the
    defaults of scikit-learn; informativeness is accuracy (R² for a continuous factor).
    """
    from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor

    # One legacy generator runs through all the fits, as in the reference.
    random_state = np.random.RandomState(seed)
    train, test = _split(latents.shape[0])
    # Trees take values that differ by less than 1e-7 for equal.
    latents = z_scored(latents, by=train)
    importances, informativeness, seen = [], [], []
    for j, name in enumerate(factors.names):
        discrete = factors.is_discrete[j]
        target = factors.codes[:, j] if discrete else factors.values[:, j]
        if np.unique(target[train]).size < 2:
            reason = f"factor {name} has one class in the training rows"
            return tuple(undefined(part, reason) for part in DCI_PARTS)
        model_type = GradientBoostingClassifier if discrete else GradientBoostingRegressor
        model = model_type(random_state=random_state).fit(latents[train], target[train])
        importances.append(np.abs(model.feature_importances_))
        informativeness.append(model.score(latents[test], target[test]))
        seen.append(model.score(latents[train], target[train]))
    matrix = np.stack(importances, axis=1)
    return (
        importance_disentanglement(matrix),
        importance_completeness(matrix),
        Score("DCI-informativeness", float(np.mean(informativeness))),
        Score("DCI-informativeness-train", float(np.mean(seen))),
    )


def importance_disentanglement(importances: Float[np.ndarray, "l m"]) -> Score:
    """DCI disentanglement: 1 − entropy of a latent's importances, weighted by their sum."""
    return _one_minus_entropy("DCI-disentanglement", importances, "factors")


def importance_completeness(importances: Float[np.ndarray, "l m"]) -> Score:
    """DCI completeness: 1 − entropy of a factor's importances, weighted by their sum."""
    return _one_minus_entropy("DCI-completeness", importances.T, "latents")


def _one_minus_entropy(name: str, importances: Any, across: str) -> Score:
    if importances.shape[1] < 2:
        return undefined(name, f"it needs at least two {across}, got {importances.shape[1]}")
    total = importances.sum()
    if total == 0:
        return undefined(name, "no latent was of any importance")
    per_row = 1.0 - relative_entropy(importances.T + 1e-11, base=importances.shape[1])
    return Score(name, float(np.sum(per_row * importances.sum(axis=1)) / total))


def _split(n_rows: int) -> tuple[slice, slice]:
    boundary = int(n_rows * TRAIN_SHARE)
    return slice(0, boundary), slice(boundary, n_rows)


def _mean_lead(table: Any) -> float:
    ordered = np.sort(table, axis=0)
    return float((ordered[-1] - ordered[-2]).mean())


def _single_latent_accuracy(latent: Any, codes: Any, train: slice, test: slice) -> float:
    from sklearn.svm import LinearSVC

    model = LinearSVC(C=0.01, class_weight="balanced", dual=True, random_state=0)
    _quietly_fitted(model, latent[train], codes[train])
    return float(model.score(latent[test], codes[test]))


def _quietly_fitted(model: Any, inputs: Any, target: Any) -> Any:
    """Fit without the warning that a solver stopped early: these scores accept what it reached."""
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(inputs, target)
