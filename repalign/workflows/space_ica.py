"""ICA of one space on some of its rows, fitted once and kept for every pair that needs it."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

import numpy as np

from repalign.aliases import FloatArray, IntArray, Rows
from repalign.core.ica import IcaFit, IcaSettings, fit_ica
from repalign.core.permutation import match_signed
from repalign.core.row_views import RowSubset
from repalign.workflows.compare_settings import CompareSettings
from repalign.workflows.machine import Machine

OnProgress = Callable[[int, int], None]


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
    """ICA fits by what they were fitted on, so that each is made once."""

    fits: dict[Hashable, SpaceIca] = field(default_factory=dict)

    def fit(
        self,
        key: Hashable,
        rows: Rows,
        chosen: IntArray | None,
        *,
        mean: FloatArray,
        covariance: FloatArray,
        settings: CompareSettings,
        machine: Machine,
    ) -> SpaceIca:
        """Return the fit of this key; fit it on the chosen rows (None for all) if it is new."""
        if key not in self.fits:
            view = rows if chosen is None else RowSubset(rows, chosen)
            self.fits[key] = fit_space(
                view, mean=mean, covariance=covariance, settings=settings, machine=machine
            )
        return self.fits[key]


def fit_space(
    rows: Rows,
    *,
    mean: FloatArray,
    covariance: FloatArray,
    settings: CompareSettings,
    machine: Machine,
) -> SpaceIca:
    """Fit ICA, and again from random starts where more than one seed is asked for."""
    fits = []
    for number in range(settings.ica_seeds):
        chosen = IcaSettings(
            contrast=settings.ica_contrast,
            solver=settings.ica_solver,
            start="pca" if number == 0 else "random",
            seed=settings.seed + number,
            max_passes=settings.ica_max_passes,
        )
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
