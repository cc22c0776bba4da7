"""The disentanglement scores: the one list that settings, help, tables and docs follow.

What computes them stands in ``repalign.core.factors.scores``: this list is light, for ``--help``.
"""

from dataclasses import dataclass
from typing import Literal

InfoMecPreset = Literal["standard", "reference", "training"]


@dataclass(frozen=True)
class ScoreKind:
    """One score.

    Attributes:
        name: What records call it.
        definition: What it is, for people who know the idea.
        direction: Whether higher (↑) or lower (↓) is better.
        is_scale_free: Stays as it is when all latents are multiplied by one number.
    """

    name: str
    definition: str
    direction: Literal["↑", "↓"] = "↑"
    is_scale_free: bool = True

    @property
    def heading(self) -> str:
        """The name with its direction, for tables."""
        return f"{self.name} {self.direction}"


@dataclass(frozen=True)
class ScoreGroup:
    """Scores that are asked for together, since they share their work.

    Attributes:
        name: What ``--scores`` calls them.
        scores: In the order of the table.
        trains_predictor: They fit a model to some rows and judge it on others, which takes
            seconds; such a group is computed only when it is asked for.
        is_repeatable: Cheap enough to be computed again for every shuffle and half-sample; the
            others have neither null nor interval.
    """

    name: str
    scores: tuple[ScoreKind, ...]
    trains_predictor: bool = False
    is_repeatable: bool = True


GROUPS = (
    ScoreGroup(
        "infomec",
        (
            ScoreKind(
                "InfoE",
                "explicitness: share of a factor's uncertainty that a linear read-out of all "
                "latents removes, in-sample. Discrete factor: 1 − (log loss of a class-balanced, "
                "unpenalised logistic regression on z-scored latents) / ln K, at most 100 "
                "iterations; continuous factor: R² of least squares. Mean over factors",
            ),
            ScoreKind(
                "InfoM",
                "modularity: mean over active latents of (largest share of a factor in what the "
                "latent knows − 1/m) / (1 − 1/m), for m factors",
            ),
            ScoreKind(
                "InfoC",
                "compactness: the same over factors and their active latents",
            ),
        ),
    ),
    ScoreGroup(
        "gaps",
        (
            ScoreKind(
                "InfoM-gap",
                "InfoM with the lead of the best factor over the second best instead of its share",
            ),
            ScoreKind(
                "InfoC-gap",
                "the lead of a factor's best latent over its second best",
            ),
        ),
    ),
    ScoreGroup(
        "mcc",
        (
            ScoreKind(
                "MCC-pearson",
                "mean absolute correlation of factors with latents matched one to one; a factor "
                "without a partner counts as 0",
            ),
            ScoreKind(
                "MCC-spearman",
                "the same with the correlation of ranks",
            ),
        ),
    ),
    ScoreGroup(
        "r2",
        (
            ScoreKind(
                "linear-R2",
                "R² of least squares from latents to factors, in-sample, mean over factors",
            ),
            ScoreKind(
                "linear-R2-held-out",
                "the same fitted on the first half of the rows and judged on the second",
            ),
        ),
    ),
    ScoreGroup(
        "mig",
        (
            ScoreKind(
                "MIG",
                "disentanglement_lib: lead of a factor's best latent in mutual information over "
                "its second best, over the factor's entropy; 20 bins of equal width a latent, "
                "plug-in estimate",
            ),
        ),
    ),
    ScoreGroup(
        "modularity",
        (
            ScoreKind(
                "modularity",
                "disentanglement_lib: 1 − squared information off the best factor of a latent, "
                "over what it could be; bins as for MIG",
            ),
        ),
    ),
    ScoreGroup(
        "sap",
        (
            ScoreKind(
                "SAP",
                "disentanglement_lib: lead of the best single latent in telling a factor over the "
                "second best: accuracy of a penalised linear SVM (squared correlation for "
                "continuous factors). The SVM sees latents as they are, by definition, so that "
                "SAP depends on their scale",
                is_scale_free=False,
            ),
        ),
        trains_predictor=True,
    ),
    ScoreGroup(
        "explicitness",
        (
            ScoreKind(
                "explicitness",
                "Ridgeway and Mozer: held-out AUROC, each class against the rest, of a logistic "
                "regression on latents z-scored by the training rows",
            ),
        ),
        trains_predictor=True,
    ),
    ScoreGroup(
        "dci",
        (
            ScoreKind(
                "DCI-disentanglement",
                "1 − entropy of a latent's importances over factors, in the gradient-boosted "
                "trees of each factor, trained on the first two thirds of the rows",
            ),
            ScoreKind(
                "DCI-completeness",
                "the same for a factor's importances over latents",
            ),
            ScoreKind(
                "DCI-informativeness",
                "accuracy of these trees on the other rows (R² for continuous factors)",
            ),
            ScoreKind(
                "DCI-informativeness-train",
                "the same on the rows that they were trained on",
            ),
        ),
        trains_predictor=True,
        is_repeatable=False,
    ),
)

GROUP_NAMES = tuple(group.name for group in GROUPS)
DEFAULT_GROUPS = tuple(group.name for group in GROUPS if not group.trains_predictor)
SCORES = tuple(score for group in GROUPS for score in group.scores)


def score_kind(name: str) -> ScoreKind:
    """Return the score of this name."""
    return next(score for score in SCORES if score.name == name)
