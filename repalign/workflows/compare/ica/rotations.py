"""The null of the held-out ICA efficiency: components of the source rotated at random."""

from collections.abc import Sequence

import numpy as np

from repalign.aliases import FloatArray, IntArray
from repalign.core.errors.efficiency import ica_efficiency
from repalign.core.inference.kept_rows import MAX_JUDGED
from repalign.core.inference.rotation import RotationNull, random_rotation, rotate_components
from repalign.core.maps.fitting import IcaPair, fit_maps
from repalign.core.rows import ArrayRows
from repalign.workflows.compare.half_samples import EFFICIENCY_MAPS
from repalign.workflows.compare.judge import PairFitter
from repalign.workflows.compare.settings import CompareSettings

FEWEST_ROTATIONS, MOST_ROTATIONS = 19, 99
# Multiplications that the rotations of one pair may take unless a number of them is asked for.
ROTATION_BUDGET = 1.5e11


def rotation_null(fitter: PairFitter, diameter: float) -> RotationNull | None:
    """Return the null of the held-out efficiency; None where the two fits share rows."""
    aligned, settings = fitter.pair.aligned, fitter.settings
    parts = aligned.split.judged
    if not parts or not set(EFFICIENCY_MAPS) <= set(fitter.names) or not diameter > 0:
        return None
    if not all(aligned.has_halves(part) for part in parts):
        return None
    n_draws = n_rotations(fitter, settings)
    if n_draws == 0:
        return None
    rng = np.random.default_rng((settings.seed, 3))
    errors, sizes = [], []
    for part in parts:
        rows = _some(aligned.split.judged_rows(part), MAX_JUDGED // len(parts), rng)
        errors.append(_errors(fitter, part, rows, n_draws, rng))
        sizes.append(aligned.split.judged_rows(part).size)
    mean = np.average(errors, axis=0, weights=sizes) / diameter
    efficiency = ica_efficiency(*mean.T)
    return RotationNull(float(efficiency[0]), efficiency[1:])


def n_rotations(fitter: PairFitter, settings: CompareSettings) -> int:
    """Return how many rotations are drawn: fewer for very wide spaces, unless asked for."""
    if settings.n_rotations is not None:
        return settings.n_rotations
    dim = max(fitter.pair.total.source_dim, fitter.pair.total.target_dim)
    n_rows = min(fitter.pair.aligned.n_rows, MAX_JUDGED)
    cost = 2.0 * n_rows * dim**2 + 30.0 * dim**3 * max(len(fitter.split.judged), 1)
    return int(np.clip(ROTATION_BUDGET / cost, FEWEST_ROTATIONS, MOST_ROTATIONS))


def _some(rows: IntArray, most: int, rng: np.random.Generator) -> IntArray:
    if rows.size <= most:
        return rows
    return np.sort(rng.choice(rows, most, replace=False))


def _errors(
    fitter: PairFitter, part: int, rows: IntArray, n_draws: int, rng: np.random.Generator
) -> FloatArray:
    """Return the mean errors of permutation, rigid and ICA map, by draw; the first is observed."""
    spaces = fitter.ica_without(part)
    assert spaces is not None
    source, target = spaces[0].fit, spaces[1].fit
    moments = fitter.pair.moments_without(part)
    x, y = ArrayRows(fitter.pair.source.take(rows)), ArrayRows(fitter.pair.target.take(rows))

    def mean_errors(names: Sequence[str], pair: IcaPair) -> list[float]:
        norms = fitter.norms(x, y, fit_maps(names, fitter.inputs(moments, pair)))
        return [float(norms[name].mean()) for name in names]

    observed = mean_errors(EFFICIENCY_MAPS, IcaPair(source, target))
    found = [observed]
    for _ in range(n_draws):
        rotated = rotate_components(source, random_rotation(source.rank, rng))
        found.append([*observed[:2], *mean_errors(("ica",), IcaPair(rotated, target))])
    return np.array(found)
