"""All disentanglement scores of one representation."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from jaxtyping import Float

from repalign.core.factors import classic, infomec, recovery
from repalign.core.factors.encoding import Factors
from repalign.core.factors.infomec import InfoMecSettings, MutualInformation
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
class ScoreInputs:
    """n rows of latents with their factors, and what several scores share, computed once."""

    factors: Factors
    latents: Float[np.ndarray, "n l"]
    settings: InfoMecSettings = field(default_factory=InfoMecSettings)
    seed: int = 0

    @cached_property
    def information(self) -> MutualInformation:
        """Normalised mutual information of factors and latents."""
        rng = np.random.default_rng(self.seed)
        return infomec.normalised_mi(self.factors, self.latents, self.settings, rng)

    @cached_property
    def binned_mi(self) -> Float[np.ndarray, "m l"]:
        """Mutual information as disentanglement_lib estimates it."""
        return classic.binned_mi(self.factors, self.latents)

    @cached_property
    def explicitness(self) -> tuple[Score, tuple[str, ...]]:
        """InfoE and its notes."""
        return infomec.explicitness(
            self.factors, self.latents, discrete_latents=self.settings.discrete_latents
        )

    @cached_property
    def dci(self) -> tuple[Score, ...]:
        """DCI: disentanglement, completeness, informativeness (test, train)."""
        return classic.dci(self.factors, self.latents, seed=self.seed)

    def scores(self, names: Iterable[str]) -> tuple[Score, ...]:
        """Return scores by name."""
        return tuple(SCORE_OF[name](self) for name in names)


SCORE_OF: dict[str, Callable[[ScoreInputs], Score]] = {
    "InfoE": lambda inputs: inputs.explicitness[0],
    "InfoM": lambda inputs: infomec.modularity(inputs.information, inputs.settings),
    "InfoC": lambda inputs: infomec.compactness(inputs.information, inputs.settings),
    "InfoM-gap": lambda inputs: infomec.modularity_gap(inputs.information),
    "InfoC-gap": lambda inputs: infomec.compactness_gap(inputs.information),
    "MCC-pearson": lambda inputs: recovery.mean_correlation(
        inputs.factors.values, inputs.latents, "pearson"
    ),
    "MCC-spearman": lambda inputs: recovery.mean_correlation(
        inputs.factors.values, inputs.latents, "spearman"
    ),
    "linear-R2": lambda inputs: recovery.linear_r2(inputs.factors.values, inputs.latents),
    "linear-R2-held-out": lambda inputs: recovery.linear_r2_held_out(
        inputs.factors.values, inputs.latents
    ),
    "MIG": lambda inputs: classic.mutual_information_gap(inputs.factors, inputs.binned_mi),
    "modularity": lambda inputs: classic.squared_modularity(inputs.binned_mi),
    "SAP": lambda inputs: classic.separated_predictability(inputs.factors, inputs.latents),
    "explicitness": lambda inputs: classic.ranking_explicitness(inputs.factors, inputs.latents),
    "DCI-disentanglement": lambda inputs: inputs.dci[0],
    "DCI-completeness": lambda inputs: inputs.dci[1],
    "DCI-informativeness": lambda inputs: inputs.dci[2],
    "DCI-informativeness-train": lambda inputs: inputs.dci[3],
}
"""Name of a score → what computes it."""


@dataclass(frozen=True, eq=False)
class FactorScores:
    """Scores in the order of the groups, the information behind them, and notes on them."""

    scores: tuple[Score, ...]
    information: MutualInformation
    notes: tuple[str, ...] = ()

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


def score_names(groups: Sequence[str], *, repeatable: bool = False) -> tuple[str, ...]:
    """Return the scores of some groups in their fixed order.

    Args:
        groups: Names of groups.
        repeatable: Only those that are cheap enough to be computed many times.

    Raises:
        InputError: An unknown group, or none.
    """
    for group in groups:
        if group not in GROUP_NAMES:
            raise InputError(f"no score group is called {group}; expected {', '.join(GROUP_NAMES)}")
    if not groups:
        raise InputError(f"no score group was given; expected some of {', '.join(GROUP_NAMES)}")
    return tuple(
        kind.name
        for group in GROUPS
        if group.name in groups and (group.is_repeatable or not repeatable)
        for kind in group.scores
    )


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
    wanted = score_names(settings.groups)
    _check_latents(factors, latents)
    inputs = ScoreInputs(factors, latents, settings.infomec, settings.seed)
    scores = inputs.scores(wanted)
    notes: tuple[str, ...] = ()
    if "infomec" in settings.groups:
        names = names or [str(number) for number in range(latents.shape[1])]
        notes = (*_notes_on(factors, inputs.information, names), *inputs.explicitness[1])
    return FactorScores(scores, inputs.information, notes)


def _notes_on(
    factors: Factors, information: MutualInformation, latent_names: Sequence[str]
) -> list[str]:
    latents, unknown = infomec.uninformative(information)
    notes = []
    if latents:
        notes.append(
            f"{len(latents)} active latent(s) have no estimated information about any factor "
            f"(latents {', '.join(latent_names[number] for number in latents)})"
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
