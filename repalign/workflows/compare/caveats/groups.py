"""Groups of rows: too few, or too unequal, for an interval."""

from collections.abc import Sequence

from repalign.core.inference.jackknife import count_groups
from repalign.workflows.compare.judge import SplitErrors
from repalign.workflows.compare.similarity.judge import SplitValues


def warn_of_groups(
    judged: Sequence[SplitErrors], measured: Sequence[SplitValues], *, wants_intervals: bool
) -> list[str]:
    """Warn where there are too few groups of rows for intervals."""
    if not wants_intervals:
        return []
    counts = [(errors.split, count_groups(errors.groups)) for errors in judged]
    counts += [(values.split, values.replicates.groups) for values in measured if values.replicates]
    return [f"{split}, {count.refusal}" for split, count in counts if count.refusal is not None]
