"""What ``disentangle`` computes and how; every choice that changes a number."""

from dataclasses import dataclass
from typing import Literal

from repalign.conditions.settings import StudySettings
from repalign.core.factors.kinds import (
    DEFAULT_GROUPS,
    GROUP_NAMES,
    GROUPS,
    InfoMecPreset,
)
from repalign.core.resampling.kinds import null_option
from repalign.exceptions import InputError
from repalign.options import option

FACTORS = "Factors"
TRUST = "How far to trust it"
ALL_SCORES = "all"

FactorKind = Literal["discrete", "continuous"]
_TRAINING = ", ".join(group.name for group in GROUPS if group.trains_predictor)


@dataclass(frozen=True)
class FactorSettings(StudySettings):
    """Scores against ground-truth factors.

    Attributes:
        factors: Names of the columns that are factors; none stands for all.
        discrete: Factors that are classes, where the guess is wrong.
        continuous: Factors that are numbers, where the guess is wrong.
        scores: Groups of scores, or ``all``.
        infomec: How InfoMEC treats neighbours, pruning and latents without information.
        discrete_latents: The latents are codes, not numbers.
        n_bins: Bins of equal frequency for the mutual information of continuous factors.
        n_seeds: Repetitions with other random rotations and ICA starts.
        n_null: Rounds of shuffled factors; 0 for none.
        n_halves: Half-samples for the intervals; 0 for none.
        max_rows: Rows scored, drawn at random from all; 0 for all.

    Example:
        >>> FactorSettings(scores=("mcc", "infomec"), n_null=19, continuous=("x",)).groups
        ('infomec', 'mcc')
    """

    factors: tuple[str, ...] = option(
        (),
        "Take this column only; repeatable.",
        flag="factor",
        panel=FACTORS,
        repeat=True,
        absent="all columns",
    )
    discrete: tuple[str, ...] = option(
        (),
        "Take this factor as classes; repeatable.",
        panel=FACTORS,
        repeat=True,
        absent="guessed",
    )
    continuous: tuple[str, ...] = option(
        (),
        "Take this factor as a number; repeatable.",
        panel=FACTORS,
        repeat=True,
        absent="guessed",
    )
    scores: tuple[str, ...] = option(
        DEFAULT_GROUPS,
        f"Groups of scores, separated by commas. {_TRAINING} train predictors, dci for minutes.",
        panel=FACTORS,
        choices=(*GROUP_NAMES, ALL_SCORES),
        metavar="NAMES",
    )
    infomec: InfoMecPreset = option(
        "standard",
        "standard: k=10, range/20, latents without information left out; reference: the same, "
        "undefined then; training: k=3, range/8.",
        panel=FACTORS,
    )
    discrete_latents: bool = option(
        False, "The latents are codes: raw only.", panel=FACTORS, recorded=True
    )
    n_bins: int = option(
        20,
        "Bins of equal frequency for continuous factors.",
        flag="bins",
        panel=FACTORS,
        least=2,
        recorded=True,
    )
    n_seeds: int = option(
        1,
        "Repetitions of what is random in a condition.",
        flag="seeds",
        panel=TRUST,
        least=1,
    )
    n_null: int = null_option("shuffled factors", TRUST)
    n_halves: int = option(
        20,
        "Half-samples behind the intervals.",
        flag="halves",
        panel=TRUST,
        least=0,
        recorded=True,
        column="n_halves",
    )
    max_rows: int = option(10_000, "Rows drawn and scored; 0 for all.", panel=TRUST, least=0)

    def __post_init__(self) -> None:
        """Check every field, and that they suit each other."""
        super().__post_init__()
        twice = set(self.discrete) & set(self.continuous)
        if twice:
            raise InputError(f"factor {min(twice)} is declared discrete and continuous; choose one")
        if self.discrete_latents and self.transform.conditions != ("raw",):
            raise InputError(
                "discrete latents were asked for in the conditions "
                f"{', '.join(self.transform.conditions)}; codes cannot be whitened: choose the "
                "condition raw alone"
            )

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups of scores, in the order of the table."""
        if ALL_SCORES in self.scores:
            return GROUP_NAMES
        return tuple(name for name in GROUP_NAMES if name in self.scores)

    @property
    def kinds(self) -> dict[str, FactorKind]:
        """What was declared of single factors."""
        kinds: dict[str, FactorKind] = dict.fromkeys(self.discrete, "discrete")
        return kinds | dict.fromkeys(self.continuous, "continuous")
