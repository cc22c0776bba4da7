"""The table of an experiment: a line a case, means over seeds, the published values below them."""

from collections.abc import Mapping, Sequence

from repalign.experiments.reproduce.results import Reproduction, Summary
from repalign.tables.table import UNDEFINED, Line, Table

PUBLISHED = "  published"


def table_of(result: Reproduction) -> Table:
    """Return the table, what it means below it; points of curves are left to the figure."""
    found = {(each.case, each.measure): each for each in result.results()}
    experiment = result.experiment
    measures = experiment.shown or tuple(dict.fromkeys(measure for _, measure in found))
    n_seeds = len(result.seeds)
    title = (
        f"{experiment.name}, {result.preset}: {experiment.shows} ({experiment.paper}). "
        f"Means of {n_seeds} seeds ± half of the 95 % interval."
    )
    lines = [line for case in result.cases for line in _rows(case, measures, found)]
    return Table(tuple(measures), tuple(lines), title, tuple(result.sentences()))


def _rows(
    case: str, measures: Sequence[str], found: Mapping[tuple[str, str], Summary]
) -> list[Line]:
    own = [found.get((case, measure)) for measure in measures]
    means = tuple(map(_mean, own))
    rows = [Line(case, means if any(means) else ())]
    published = tuple(map(_published, own))
    return [*rows, Line(PUBLISHED, published, is_detail=True)] if any(published) else rows


def _mean(each: Summary | None) -> str:
    if each is None:
        return ""
    if each.mean != each.mean:
        return UNDEFINED
    half = each.high - each.mean
    return f"{each.mean:.3f}" if half != half else f"{each.mean:.3f} ±{half:.3f}"


def _published(each: Summary | None) -> str:
    if each is None or each.published is None:
        return ""
    return each.published if isinstance(each.published, str) else f"{each.published:.3f}"
