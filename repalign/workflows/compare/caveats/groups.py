"""Groups of rows: too few, or too unequal, for what an interval claims."""

from collections.abc import Sequence

from repalign.core.inference.left_out import FLAGGED_GROUPS
from repalign.workflows.compare.judge import SplitErrors
from repalign.workflows.compare.similarity.judge import SplitValues


def warn_of_groups(judged: Sequence[SplitErrors | SplitValues]) -> list[str]:
    """Warn of intervals that rest on few groups, or that there is none for that reason."""
    found = []
    for errors in judged:
        left_out = errors.left_out
        if left_out is None:
            continue
        if left_out.refusal is not None:
            found.append(f"{errors.split}, {left_out.refusal}")
        elif round(left_out.worth) < FLAGGED_GROUPS:
            n_groups, worth = left_out.n_groups, left_out.worth
            size = f", worth {worth:.1f} of one size," if n_groups >= FLAGGED_GROUPS else ""
            found.append(
                f"{errors.split}, {n_groups} groups of rows{size} are judged: intervals of "
                f"fewer than {FLAGGED_GROUPS} hang on few values; judge all of them in folds "
                "(--folds 5), or use more groups"
            )
    return found
