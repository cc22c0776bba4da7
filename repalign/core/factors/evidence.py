"""Latents beside their factors, and what several scores need of them, computed once."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from jaxtyping import Float

from repalign.core.factors import classic, infomec, recovery
from repalign.core.factors.encoding import Factors
from repalign.core.factors.infomec import InfoMecSettings, MutualInformation
from repalign.core.factors.recovery import Correlation
from repalign.core.score import Score


@dataclass(frozen=True, eq=False)
class Evidence:
    """n rows of latents and their factors; every score is one of its methods."""

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

    def modularity(self) -> Score:
        """InfoM."""
        return infomec.modularity(self.information, self.settings)

    def compactness(self) -> Score:
        """InfoC."""
        return infomec.compactness(self.information, self.settings)

    def modularity_gap(self) -> Score:
        """InfoM-gap."""
        return infomec.modularity_gap(self.information)

    def compactness_gap(self) -> Score:
        """InfoC-gap."""
        return infomec.compactness_gap(self.information)

    def mean_correlation(self, correlation: Correlation) -> Score:
        """MCC."""
        return recovery.mean_correlation(self.factors.values, self.latents, correlation)

    def linear_r2(self) -> Score:
        """R² in-sample."""
        return recovery.linear_r2(self.factors.values, self.latents)

    def linear_r2_held_out(self) -> Score:
        """R² on the second half of the rows."""
        return recovery.linear_r2_held_out(self.factors.values, self.latents)

    def mutual_information_gap(self) -> Score:
        """MIG."""
        return classic.mutual_information_gap(self.factors, self.binned_mi)

    def squared_modularity(self) -> Score:
        """Modularity of Ridgeway and Mozer."""
        return classic.squared_modularity(self.binned_mi)

    def separated_predictability(self) -> Score:
        """SAP."""
        return classic.separated_predictability(self.factors, self.latents)

    def ranking_explicitness(self) -> Score:
        """Explicitness of Ridgeway and Mozer."""
        return classic.ranking_explicitness(self.factors, self.latents)
