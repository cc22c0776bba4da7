"""LightGBM as the judge of what a representation tells, with the paper's hyper-parameters."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int


@dataclass(frozen=True)
class BoostingSettings:
    """Table 6 of the paper; the number of rounds is not given there and is LightGBM's default."""

    rounds: int = 100
    learning_rate: float = 0.05
    num_leaves: int = 31
    feature_fraction: float = 0.6
    reg_alpha: float = 5.0
    reg_lambda: float = 1.0
    min_gain_to_split: float = 0.8
    min_data_in_leaf: int = 30
    is_unbalance: bool = True


@dataclass(frozen=True, eq=False)
class Verdict:
    """What a classifier made of the test rows, and how often it split on each feature."""

    auroc: float
    split_counts: Float[np.ndarray, " d"]


def judge(
    train: tuple[Float[np.ndarray, "a d"], Int[np.ndarray, " a"]],
    test: tuple[Float[np.ndarray, "b d"], Int[np.ndarray, " b"]],
    settings: BoostingSettings,
    *,
    seed: int,
) -> Verdict:
    """Fit a two-class model on (rows, labels) and judge it on others; same seed, same verdict."""
    from sklearn.metrics import roc_auc_score

    booster = _fitted(train, settings, {"objective": "binary"}, seed)
    counts = booster.feature_importance(importance_type="split").astype(np.float64)
    return Verdict(float(roc_auc_score(test[1], booster.predict(test[0]))), counts)


def balanced_accuracy(
    train: tuple[Float[np.ndarray, "a d"], Int[np.ndarray, " a"]],
    test: tuple[Float[np.ndarray, "b d"], Int[np.ndarray, " b"]],
    settings: BoostingSettings,
    *,
    seed: int,
) -> float:
    """Fit a model of K classes ``0 .. K-1``; mean over classes of the share told right.

    Chance is 1/K.
    """
    from sklearn.metrics import balanced_accuracy_score

    n_classes = int(max(train[1].max(), test[1].max())) + 1
    if n_classes == 2:
        booster = _fitted(train, settings, {"objective": "binary"}, seed)
        told = (booster.predict(test[0]) > 0.5).astype(np.int64)
    else:
        objective = {"objective": "multiclass", "num_class": n_classes}
        told = _fitted(train, settings, objective, seed).predict(test[0]).argmax(axis=1)
    return float(balanced_accuracy_score(test[1], told))


def _fitted(train: Any, settings: BoostingSettings, objective: dict[str, Any], seed: int) -> Any:
    import lightgbm

    parameters = {
        **objective,
        "learning_rate": settings.learning_rate,
        "num_leaves": settings.num_leaves,
        "feature_fraction": settings.feature_fraction,
        "lambda_l1": settings.reg_alpha,
        "lambda_l2": settings.reg_lambda,
        "min_gain_to_split": settings.min_gain_to_split,
        "min_data_in_leaf": settings.min_data_in_leaf,
        "is_unbalance": settings.is_unbalance and objective["objective"] == "binary",
        "seed": seed,
        # Folds run side by side, one thread each, and a rerun gives the same trees.
        "num_threads": 1,
        "deterministic": True,
        "force_row_wise": True,
        "verbosity": -1,
    }
    data = lightgbm.Dataset(train[0], label=train[1], params=parameters)
    return lightgbm.train(parameters, data, num_boost_round=settings.rounds)
