"""Groups of rows: too few, or too unequal, for an interval; or none where rows depend."""

from collections.abc import Sequence

import numpy as np

from repalign.aliases import Rows
from repalign.core.inference.jackknife import count_groups
from repalign.core.inference.sample import Sample
from repalign.workflows.compare.scores import MapScores, Scores

# Rows that are looked at for a series, and the lag-one correlation from which they look like one.
SERIES_ROWS, SERIES_CORRELATION = 5000, 0.15


def warn_of_groups(
    judged: Sequence[MapScores], measured: Sequence[Scores], *, wants_intervals: bool
) -> list[str]:
    """Warn where there are too few groups of rows for intervals."""
    if not wants_intervals:
        return []
    counts = [(errors.split, count_groups(errors.groups)) for errors in judged]
    counts += [
        (scores.split, replicates.groups)
        for scores in measured
        if (replicates := scores.halves or scores.left_out) is not None
    ]
    return [f"{split}, {count.refusal}" for split, count in counts if count.refusal is not None]


def warn_of_series(sample: Sample) -> list[str]:
    """Warn where rows that stand next to each other are alike on both sides, without groups."""
    groups = sample.groups
    n_rows = min(groups.size, SERIES_ROWS)
    if np.unique(groups).size < groups.size or n_rows < 20:
        return []
    source, target = (lag_one_correlation(side, n_rows) for side in (sample.source, sample.target))
    if min(source, target) < max(SERIES_CORRELATION, 4 / np.sqrt(n_rows)):
        return []
    return [
        f"rows next to each other are alike on both sides (lag-one correlation {source:.2f} and "
        f"{target:.2f}): if they come in series or groups, p-values and intervals are too small; "
        "name the groups (--groups, in Python groups=)"
    ]


def lag_one_correlation(rows: Rows, n_rows: int) -> float:
    """Return the correlation of rows with the next ones, over the first rows."""
    values = rows.read(0, n_rows).astype(np.float64)
    values -= values.mean(axis=0)
    energy = float(np.sum(values**2))
    return float(np.sum(values[1:] * values[:-1])) / energy if energy > 0 else 0.0
