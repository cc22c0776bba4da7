"""All disentanglement scores of one representation."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float

from repalign.core.factors.encoding import Factors
from repalign.core.factors.evidence import Evidence
from repalign.core.factors.infomec import InfoMecSettings, MutualInformation, uninformative
from repalign.core.factors.kinds import DEFAULT_GROUPS, GROUP_NAMES, GROUPS
from repalign.core.score import Score
from repalign.exceptions import InputError


@dataclass(frozen=True)
class ScoreSettings:
    """Which groups of scores, and how InfoMEC is computed."""

    groups: tuple[str, ...] = DEFAULT_GROUPS
    infomec: InfoMecSettings = field(default_factory=InfoMecSettings)
    seed: int = 0


@dataclass(frozen=True, eq=False)
class FactorScores:
    """Scores in the order of the groups, the information behind them, and what to know of them."""

    scores: tuple[Score, ...]
    evidence: Evidence
    notes: tuple[str, ...] = ()

    @property
    def information(self) -> MutualInformation:
        """What every latent knows of every factor."""
        return self.evidence.information

    def value(self, name: str) -> float | None:
        """Return one score by name; None where it is undefined.

        Raises InputError for a score that was not computed.
        """
        for score in self.scores:
            if score.name == name:
                return score.value
        raise InputError(
            f"no score is called {name}; there are {', '.join(s.name for s in self.scores)}"
        )


def check_groups(groups: tuple[str, ...]) -> tuple[str, ...]:
    """Return the groups in their fixed order.

    Raises InputError on an unknown group or on none.
    """
    for group in groups:
        if group not in GROUP_NAMES:
            raise InputError(f"no score group is called {group}; expected {', '.join(GROUP_NAMES)}")
    if not groups:
        raise InputError(f"no score group was given; expected some of {', '.join(GROUP_NAMES)}")
    return tuple(group for group in GROUP_NAMES if group in groups)


def score_factors(
    factors: Factors,
    latents: Float[np.ndarray, "n l"],
    settings: ScoreSettings | None = None,
    *,
    names: Sequence[str] | None = None,
) -> FactorScores:
    """Score n rows of latents against their factors; ``names`` are those of the latents.

    Raises InputError when rows and factors do not pair, a latent is not finite, or a group is
    unknown.
    """
    settings = settings or ScoreSettings()
    wanted = check_groups(settings.groups)
    _check_latents(factors, latents)
    evidence = Evidence(factors, latents, settings.infomec, settings.seed)
    scores = tuple(
        kind.compute(evidence) for group in GROUPS if group.name in wanted for kind in group.scores
    )
    notes: tuple[str, ...] = ()
    if "infomec" in wanted:
        told = names or [str(number) for number in range(latents.shape[1])]
        notes = (*_notes_on(factors, evidence.information, told), *evidence.explicitness[1])
    return FactorScores(scores, evidence, notes)


def _notes_on(factors: Factors, information: MutualInformation, told: Sequence[str]) -> list[str]:
    latents, unknown = uninformative(information)
    notes = []
    if latents:
        notes.append(
            f"{len(latents)} active latent(s) have no estimated information about any factor "
            f"(latents {', '.join(told[number] for number in latents)})"
        )
    if unknown:
        names = ", ".join(factors.names[j] for j in unknown)
        notes.append(f"no active latent has estimated information about {names}")
    return notes


def _check_latents(factors: Factors, latents: np.ndarray) -> None:
    if latents.shape[0] != factors.codes.shape[0]:
        raise InputError(
            f"{latents.shape[0]} rows of latents but {factors.codes.shape[0]} rows of factors; "
            "expected the same rows in the same order"
        )
    if latents.shape[1] < 1:
        raise InputError("there is no latent; expected at least one column")
    if not np.isfinite(latents).all():
        row, column = np.argwhere(~np.isfinite(latents))[0]
        raise InputError(
            f"latent {column} of row {row} is {latents[row, column]}; expected finite numbers"
        )
