"""The records of ``disentangle`` as the tables that people read."""

from collections.abc import Sequence

import numpy as np

from repalign.core.conditions.kinds import condition_kind
from repalign.core.factors.kinds import GROUPS, score_kind
from repalign.core.inference.kinds import NULL_OF
from repalign.printable import counted
from repalign.workflows.disentangle.results import DisentangleResult, ScoreRecord
from repalign.workflows.tables.table import UNDEFINED, Line, Table, distinct, interval, number

SHUFFLE = NULL_OF["shuffled factors"]
PAPER_SCORES = ("InfoM", "InfoE", "InfoC")
SHUFFLED = {
    "rows": "rows",
    "groups": "whole groups",
    "runs of groups": "whole groups of about one size",
}
_WITHOUT_NULL = {
    score.name for group in GROUPS if not group.is_repeatable for score in group.scores
}

_INFOMEC = {score.name for group in GROUPS if group.name == "infomec" for score in group.scores}


def score_tables(result: DisentangleResult) -> tuple[Table, ...]:
    """Return a table for each source: scores with interval, null and p-value by condition."""
    return tuple(_score_table(title, members) for title, members in _by_origin(result).items())


def paper_tables(result: DisentangleResult) -> tuple[Table, ...]:
    """Return the scores in the layout of the paper's Table 2."""
    names = [name for name in PAPER_SCORES if any(one.score == name for one in result.records)]
    names = names or distinct(one.score for one in result.records)
    rows = []
    for title, members in _by_origin(result).items():
        for condition in distinct(one.condition for one in members):
            cells = []
            for name in names:
                found = [one for one in members if (one.condition, one.score) == (condition, name)]
                cells.append(_over_seeds([one.value for one in found]))
            rows.append(Line(f"{title} {condition_kind(condition).title}", tuple(cells)))
    headings = tuple(score_kind(name).heading for name in names)
    return (Table(headings, tuple(rows), "disentanglement"),)


def _score_table(source: str, records: list[ScoreRecord]) -> Table:
    conditions = distinct(one.condition for one in records)
    rows: list[Line] = []
    for score in distinct(one.score for one in records):
        by_condition = [
            [one for one in records if (one.score, one.condition) == (score, condition)]
            for condition in conditions
        ]
        values = tuple(_over_seeds([one.value for one in found]) for found in by_condition)
        rows.append(Line(score_kind(score).heading, values))
        rows += _details([found[0] for found in by_condition])
    titles = tuple(condition_kind(name).title for name in conditions)
    return Table(titles, tuple(rows), source, tuple(_notes(records, conditions)))


def _details(firsts: list[ScoreRecord]) -> list[Line]:
    """Return the rows below a score; what no condition has is left out."""
    rows = []
    if any(one.ci_low is not None for one in firsts):
        cells = tuple(interval(one.ci_low, one.ci_high) for one in firsts)
        rows.append(Line("  95 %", cells, is_detail=True))
    if any(one.null is not None for one in firsts):
        cells = tuple(number(one.null) for one in firsts)
        rows.append(Line(f"  {SHUFFLE.line}", cells, is_detail=True))
    if any(one.p_value is not None for one in firsts):
        cells = tuple(number(one.p_value) for one in firsts)
        rows.append(Line(f"  {SHUFFLE.p_line}", cells, is_detail=True))
    return rows


def _by_origin(result: DisentangleResult) -> dict[str, list[ScoreRecord]]:
    """Group records by source; the view is named where a source has several."""
    views: dict[str, set[str]] = {}
    for one in result.records:
        views.setdefault(one.source, set()).add(one.view)
    groups: dict[str, list[ScoreRecord]] = {}
    for one in result.records:
        title = one.source if len(views[one.source]) == 1 else f"{one.source}::{one.view}"
        groups.setdefault(title, []).append(one)
    return groups


def _notes(records: list[ScoreRecord], conditions: list[str]) -> list[str]:
    first = records[0]
    rows = counted(first.n_rows, "row")
    if first.n_groups < first.n_rows:
        rows += f" in {counted(first.n_groups, 'group')}"
    preset = f"; InfoMEC: {first.infomec}" if any(one.score in _INFOMEC for one in records) else ""
    notes = [f"{rows}, {counted(first.n_factors, 'factor')}{preset}"]
    if any(one.seed != first.seed for one in records):
        notes.append("value: mean over seeds ± deviation; the lines below it: first seed")
    tested = next((one for one in records if one.null_scheme), None)
    if tested is not None:
        notes.append(
            f"{SHUFFLE.told}: mean of {tested.n_null} rounds, "
            f"{SHUFFLED[tested.null_scheme or 'rows']} shuffled; {SHUFFLE.p_line}: how often "
            f"chance scores as high, at least {number(tested.smallest_p)}"
        )
    if any(one.score in _WITHOUT_NULL for one in records):
        notes.append("DCI has neither null nor interval: its trees are too dear to grow again")
    notes += [_latent_note(records, condition) for condition in conditions]
    return notes + distinct(
        f"{one.condition}, {one.score}: {one.reason}" for one in records if one.reason
    )


def _latent_note(records: list[ScoreRecord], condition: str) -> str:
    one = next(record for record in records if record.condition == condition)
    text = f"{condition}: {one.n_active} of {one.n_latents} latents active"
    if one.iterations is not None:
        ended = "converged" if one.converged else "NOT converged"
        text += f"; {one.ica_solver} ICA {ended} after {one.iterations} passes"
    return text


def _over_seeds(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return UNDEFINED
    if len(known) == 1:
        return number(known[0])
    return f"{number(float(np.mean(known)))} ± {number(float(np.std(known, ddof=1)))}"
