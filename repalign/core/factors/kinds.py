"""The disentanglement scores: the one list that settings, help, tables and docs follow."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from repalign.core.factors.evidence import Evidence
    from repalign.core.score import Score

InfoMecPreset = Literal["standard", "reference", "training"]


@dataclass(frozen=True)
class ScoreKind:
    """One score.

    Attributes:
        name: What records call it.
        definition: What it is, for people who know the idea.
        compute: Makes it from latents and factors.
        direction: Whether higher (↑) or lower (↓) is better.
        is_scale_free: Stays as it is when all latents are multiplied by one number.
    """

    name: str
    definition: str
    compute: "Callable[[Evidence], Score]"
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
                lambda evidence: evidence.explicitness[0],
            ),
            ScoreKind(
                "InfoM",
                "modularity: mean over active latents of (largest share of a factor in what the "
                "latent knows − 1/m) / (1 − 1/m), for m factors",
                lambda evidence: evidence.modularity(),
            ),
            ScoreKind(
                "InfoC",
                "compactness: the same over factors and their active latents",
                lambda evidence: evidence.compactness(),
            ),
        ),
    ),
    ScoreGroup(
        "gaps",
        (
            ScoreKind(
                "InfoM-gap",
                "InfoM with the lead of the best factor over the second best instead of its share",
                lambda evidence: evidence.modularity_gap(),
            ),
            ScoreKind(
                "InfoC-gap",
                "the lead of a factor's best latent over its second best",
                lambda evidence: evidence.compactness_gap(),
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
                lambda evidence: evidence.mean_correlation("pearson"),
            ),
            ScoreKind(
                "MCC-spearman",
                "the same with the correlation of ranks",
                lambda evidence: evidence.mean_correlation("spearman"),
            ),
        ),
    ),
    ScoreGroup(
        "r2",
        (
            ScoreKind(
                "linear-R2",
                "R² of least squares from latents to factors, in-sample, mean over factors",
                lambda evidence: evidence.linear_r2(),
            ),
            ScoreKind(
                "linear-R2-held-out",
                "the same fitted on the first half of the rows and judged on the second",
                lambda evidence: evidence.linear_r2_held_out(),
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
                lambda evidence: evidence.mutual_information_gap(),
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
                lambda evidence: evidence.squared_modularity(),
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
                "SAP hangs on their scale",
                lambda evidence: evidence.separated_predictability(),
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
                lambda evidence: evidence.ranking_explicitness(),
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
                lambda evidence: evidence.dci[0],
            ),
            ScoreKind(
                "DCI-completeness",
                "the same for a factor's importances over latents",
                lambda evidence: evidence.dci[1],
            ),
            ScoreKind(
                "DCI-informativeness",
                "accuracy of these trees on the other rows (R² for continuous factors)",
                lambda evidence: evidence.dci[2],
            ),
            ScoreKind(
                "DCI-informativeness-train",
                "the same on the rows that they were trained on",
                lambda evidence: evidence.dci[3],
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
