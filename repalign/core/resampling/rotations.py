"""Random-rotation null of the ICA efficiency.

Whitened components that identify nothing are an arbitrary rotation of any others. The components
of one side are rotated at random, matched and judged again; no ICA is fitted anew. The two fits
must not share rows: on the same rows their agreement is partly noise that both have seen.
"""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from repalign.core.linalg import random_rotation
from repalign.core.resampling.evaluate import MapEvaluator
from repalign.core.resampling.sample import MAX_JUDGED, Sample
from repalign.core.row_errors import ica_efficiency

EFFICIENCY_MAPS = ("permutation", "rigid", "ica")


@dataclass(frozen=True, eq=False)
class RotationNull:
    """The efficiency of the best starts on the rows of the null, as observed and rotated."""

    observed: float
    rotated: Float[np.ndarray, " draws"]

    @property
    def p_value(self) -> float:
        """(b + 1) / (m + 1), b the rotations with at least the observed efficiency."""
        if not np.isfinite(self.observed) or not np.isfinite(self.rotated).all():
            return float("nan")
        as_high = np.count_nonzero(self.rotated >= self.observed)
        return (as_high + 1) / (self.rotated.size + 1)

    @property
    def mean(self) -> float:
        """Mean efficiency after rotation."""
        return float(self.rotated.mean())

    @property
    def spread(self) -> float:
        """Standard deviation of the efficiency after rotation."""
        return float(self.rotated.std(ddof=1)) if self.rotated.size > 1 else float("nan")


def rotation_null(
    evaluate: MapEvaluator, sample: Sample, n_draws: int, diameter: float, seed: int
) -> RotationNull:
    """Return the null of the held-out ICA efficiency: components of the source rotated at random.

    No ICA is fitted again. The two fits must not share rows.
    """
    rng = np.random.default_rng((seed, 3))
    of_efficiency = replace(evaluate, names=EFFICIENCY_MAPS)
    of_ica = replace(evaluate, names=("ica",))
    errors = []
    for part in sample.split.judged:
        rows, most = sample.split.judged_rows(part), MAX_JUDGED // len(sample.split.judged)
        if rows.size > most:
            rows = np.sort(rng.choice(rows, most, replace=False))
        judging = replace(sample, judging=rows)
        source, target = (starts[0] for starts in sample.ica[part])
        observed = of_efficiency.means(judging, part)
        draws = [observed]
        for _ in range(n_draws):
            turn = random_rotation(source.rank, rng)
            rotated = replace(
                source, unmixing=turn @ source.unmixing, mixing=source.mixing @ turn.T
            )
            changed = replace(judging, ica={part: ((rotated,), (target,))})
            draws.append([*observed[:2], *of_ica.means(changed, part)])
        errors.append(draws)
    mean = np.average(np.array(errors), axis=0, weights=sample.n_of_judged_parts) / diameter
    efficiency = ica_efficiency(*mean.T)
    return RotationNull(float(efficiency[0]), efficiency[1:])
