"""The best matches of layers as a narrow table: one map or measure, a block a pair of models."""

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from repalign.tables.matrix import chosen_quantity
from repalign.tables.quantities import SPLITS, quantities_in
from repalign.tables.table import UNDEFINED, Line, Table, number

if TYPE_CHECKING:
    from repalign.comparison.results import CompareResult, MatchRecord

# More views than this are counted instead of named.
MOST_NAMED = 2
MORE = "other maps, measures and splits, and the best source of each target: .csv and .json"


def matches_table(result: "CompareResult", name: str | None = None) -> Table:
    """Arrange the best target of every source by one map or measure, held-out where judged."""
    names = {match.by for match in result.matches}
    known = quantities_in(result.to_records())
    if names:
        known = tuple(quantity for quantity in known if quantity.name in names)
    quantity = chosen_quantity(known, name if name in names else None)
    matches = [match for match in result.matches if match.by == quantity.name]
    split = next((split for split in SPLITS if any(m.split == split for m in matches)), SPLITS[0])
    matches = [match for match in matches if (match.split, match.side) == (split, "source")]
    lines = []
    for (model, other), block in groupby(matches, key=lambda match: (match.model, match.other)):
        lines.append(Line(f"{model} → {other}"))
        lines += [Line(f"  {match.view or model}", _cells(match)) for match in block]
    value = quantity.heading
    if any(match.column == "error_over_rms_radius" for match in matches):
        value += " / rms radius"
    columns = ("best", value, "plausible", "p search")
    return Table(columns, tuple(lines), f"Best match of each view, {split}", (MORE,))


def _cells(match: "MatchRecord") -> tuple[str, ...]:
    p_search = UNDEFINED if match.p_search is None else number(match.p_search)
    return match.best, number(match.value), _named(match.plausible, match.n_candidates), p_search


def _named(views: Sequence[str] | None, n_candidates: int) -> str:
    """Name the views that may match best, or say how many of all they are."""
    if views is None:
        return UNDEFINED
    return ", ".join(views) if len(views) <= MOST_NAMED else f"{len(views)} of {n_candidates}"
