"""Groups of rows: too few, or too unequal, for what an interval claims."""

from collections.abc import Sequence

from repalign.core.inference.left_out import FLAGGED_GROUPS, LeftOut
from repalign.workflows.compare.judge import SplitErrors
from repalign.workflows.compare.similarity.judge import SplitValues


def warn_of_groups(judged: Sequence[SplitErrors | SplitValues]) -> list[str]:
    """Warn of intervals that rest on few groups, or that there is none for that reason."""
    left_out = ((each.split, each.left_out) for each in judged)
    return [text for split, one in left_out if one is not None for text in _of_split(split, one)]


def _of_split(split: str, left_out: LeftOut) -> list[str]:
    if left_out.refusal is not None:
        return [f"{split}, {left_out.refusal}"]
    n_groups, worth = left_out.groups.number, left_out.groups.worth
    if round(worth) >= FLAGGED_GROUPS:
        return []
    size = f", worth {worth:.1f} of one size," if round(worth) < n_groups else ""
    return [
        f"{split}, {n_groups} groups of rows{size} are judged: intervals of fewer than "
        f"{FLAGGED_GROUPS} hang on few values; judge all of them in folds (--folds 5), or use "
        "more groups"
    ]
