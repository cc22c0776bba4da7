"""Gaussian pairs against their Gaussian twins, by ``compare`` itself."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from repalign.experiments.calibration.laws import CalibrationCase, draw_gaussian, groups_of
from repalign.experiments.reproduce.experiment import Measured
from repalign.workflows.compare.settings import CompareSettings

if TYPE_CHECKING:
    from repalign.workflows.machine import Machine

N_TWINS = 4
ABOVE, BELOW = "above all twins", "below all twins"
APART = "pair − mean of its twins, in sd of twins"


def ranks(case: CalibrationCase, trials: Sequence[int], machine: "Machine") -> list[Measured]:
    """Return how often the efficiency of a Gaussian pair is above, and below, all of its twins'."""
    found = [_efficiencies(case, trial, machine) for trial in trials]
    pairs = np.array([observed for observed, _ in found])
    twins = np.array([of_twins for _, of_twins in found])
    apart = (pairs - twins.mean(axis=1)).mean() / twins.std(ddof=1)
    return [
        Measured(ABOVE, float((pairs > twins.max(axis=1)).mean())),
        Measured(BELOW, float((pairs < twins.min(axis=1)).mean())),
        Measured(APART, float(apart)),
    ]


def _efficiencies(
    case: CalibrationCase, trial: int, machine: "Machine"
) -> tuple[float, Sequence[float]]:
    """Return the in-sample ICA efficiency of a Gaussian pair, and those of its Gaussian twins.

    The efficiency is that of the errors, since ``compare`` gives none where nothing is
    identifiable, as here.
    """
    from repalign.workflows.compare.run import compare

    dim, seed, groups = case.n_columns, 1000 * trial, groups_of(case)
    turn = np.linalg.qr(np.random.default_rng(dim).standard_normal((dim, dim)))[0]
    rng = np.random.default_rng(seed)
    x = draw_gaussian(groups, case.icc, rng, dim)
    y = x @ turn + 0.1 * rng.standard_normal(x.shape)
    settings = CompareSettings(
        maps=("permutation", "rigid", "ica"), held_out=0.0, n_null=0, n_refits=0, seed=seed,
        n_gaussian=N_TWINS, starts=1, ica_rows=case.ica_rows,
    )  # fmt: skip
    result = compare(x, y, groups=groups, settings=settings, machine=machine)
    errors = {record.map: record.error for record in result.records}
    permutation, rigid, ica = (float(errors[name] or 0) for name in settings.maps)
    twins = result.pairs[0].gaussian_efficiencies["in-sample"]
    return (permutation - ica) / (permutation - rigid), twins
