"""ICA of one space on some of its rows, fitted once and kept for every pair that needs it."""

from collections.abc import Hashable
from dataclasses import dataclass, field, replace

import numpy as np

from repalign.aliases import FloatArray, Rows
from repalign.core.ica.fit import IcaFit, fit_ica
from repalign.core.maps.permutation import match_signed
from repalign.workflows.compare.aligned import SpaceKey
from repalign.workflows.compare.settings import CompareSettings
from repalign.workflows.machine import Machine

# Between the seeds of two contents there is room for as many restarts.
SEED_STRIDE = 1000


@dataclass(frozen=True, eq=False)
class SpaceIca:
    """An ICA fit, and how far restarts from random rotations agree with it.

    Attributes:
        fit: The fit that is used.
        agreement: Mean matched |correlation| of the restarts with it; None without restarts.
    """

    fit: IcaFit
    agreement: float | None


@dataclass(frozen=True, eq=False)
class IcaStore:
    """ICA fits by what they were fitted on, so that each is made once.

    Every content has a seed of its own, by order of appearance: from one common start two
    spaces would end alike where there is nothing to find, since their principal directions
    agree. Equal content has one seed, and so one fit.
    """

    fits: dict[Hashable, SpaceIca] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)

    def seed_of(self, fingerprint: str, settings: CompareSettings) -> int:
        """Return the first seed of a content."""
        number = self.numbers.setdefault(fingerprint, len(self.numbers))
        return settings.seed + SEED_STRIDE * number

    def has(self, space: SpaceKey, part: Hashable) -> bool:
        """Whether the ICA of a space on a part of its rows is known."""
        return (space, part) in self.fits

    def get(self, space: SpaceKey, part: Hashable) -> SpaceIca:
        """Return the known ICA of a space on a part of its rows."""
        return self.fits[space, part]

    def add(
        self,
        space: SpaceKey,
        part: Hashable,
        rows: Rows,
        *,
        mean: FloatArray,
        covariance: FloatArray,
        settings: CompareSettings,
        machine: Machine,
    ) -> None:
        """Fit the ICA of a space on a part of its rows, and keep it."""
        self.fits[space, part] = fit_space(
            rows,
            mean=mean,
            covariance=covariance,
            settings=settings,
            machine=machine,
            seed=self.seed_of(space.fingerprint, settings),
        )


def fit_space(
    rows: Rows,
    *,
    mean: FloatArray,
    covariance: FloatArray,
    settings: CompareSettings,
    machine: Machine,
    seed: int,
) -> SpaceIca:
    """Fit ICA from a random start, and from others where more than one seed is asked for."""
    fits = []
    for number in range(settings.ica_seeds):
        chosen = replace(settings.ica, start="random", seed=seed + number)
        fits.append(
            fit_ica(
                rows,
                mean=mean,
                covariance=covariance,
                settings=chosen,
                memory_bytes=machine.memory_bytes,
                device=machine.device,
                on_progress=machine.on_progress("ICA"),
            )
        )
    if len(fits) == 1:
        return SpaceIca(fits[0], None)
    agreements = [
        match_signed(fits[0].unmixing @ covariance @ other.unmixing.T).value.mean()
        for other in fits[1:]
    ]
    return SpaceIca(fits[0], float(np.mean(agreements)))
