"""The records of ``disentangle`` and ``deconfound`` as the tables that people read."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from repalign.core.batches.measures import measure_called
from repalign.core.conditions.kinds import condition_kind
from repalign.core.factors.kinds import GROUPS, score_kind
from repalign.core.resampling.kinds import NULL_OF
from repalign.printable import counted
from repalign.tables.table import UNDEFINED, Line, Table, distinct, interval, number

if TYPE_CHECKING:
    from repalign.deconfounding.results import BatchRecord, DeconfoundResult
    from repalign.disentanglement.results import DisentangleResult, ScoreRecord


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


def score_tables(result: "DisentangleResult") -> tuple[Table, ...]:
    """Return a table for each source: scores with interval, null and p-value by condition."""
    return tuple(_score_table(title, members) for title, members in _by_origin(result).items())


def paper_tables(result: "DisentangleResult") -> tuple[Table, ...]:
    """Return the scores in the layout of the paper's Table 2."""
    scores = distinct(record.score for record in result.records)
    names = [name for name in PAPER_SCORES if name in scores] or scores
    lines = []
    for title, members in _by_origin(result).items():
        for condition in distinct(record.condition for record in members):
            cells = tuple(_over_seeds(_chosen(members, condition, name)) for name in names)
            lines.append(Line(f"{title} {condition_kind(condition).title}", cells))
    headings = tuple(score_kind(name).heading for name in names)
    return (Table(headings, tuple(lines), "disentanglement"),)


def batch_tables(result: "DeconfoundResult") -> tuple[Table, ...]:
    """Return a table for each protocol, in the layout of the paper's Tables 3 and 4."""
    conditions = distinct(record.condition for record in result.records)
    by_protocol: dict[str, list[BatchRecord]] = {}
    for record in result.records:
        by_protocol.setdefault(record.protocol, []).append(record)
    return tuple(_batch_table(members, conditions) for members in by_protocol.values())


def _score_table(source: str, records: "list[ScoreRecord]") -> Table:
    conditions = distinct(record.condition for record in records)
    lines: list[Line] = []
    for score in distinct(record.score for record in records):
        by_condition = [_chosen(records, condition, score) for condition in conditions]
        cells = tuple(map(_over_seeds, by_condition))
        lines.append(Line(score_kind(score).heading, cells))
        lines += _details([members[0] for members in by_condition])
    titles = tuple(condition_kind(name).title for name in conditions)
    return Table(titles, tuple(lines), source, tuple(_notes(records, conditions)))


def _chosen(records: "list[ScoreRecord]", condition: str, score: str) -> "list[ScoreRecord]":
    return [record for record in records if (record.condition, record.score) == (condition, score)]


def _details(records: "list[ScoreRecord]") -> list[Line]:
    """Return the lines below a score; what no condition has is left out."""
    lines = []
    if any(record.ci_low is not None for record in records):
        cells = tuple(interval(record.ci_low, record.ci_high) for record in records)
        lines.append(Line("  95 %", cells, is_detail=True))
    if any(record.null is not None for record in records):
        cells = tuple(number(record.null) for record in records)
        lines.append(Line(f"  {SHUFFLE.line}", cells, is_detail=True))
    if any(record.p_value is not None for record in records):
        cells = tuple(number(record.p_value) for record in records)
        lines.append(Line(f"  {SHUFFLE.p_line}", cells, is_detail=True))
    return lines


def _by_origin(result: "DisentangleResult") -> "dict[str, list[ScoreRecord]]":
    """Group records by source; the view is named where a source has several."""
    views: dict[str, set[str]] = {}
    for record in result.records:
        views.setdefault(record.source, set()).add(record.view)
    groups: dict[str, list[ScoreRecord]] = {}
    for record in result.records:
        is_only_view = len(views[record.source]) == 1
        title = record.source if is_only_view else f"{record.source}::{record.view}"
        groups.setdefault(title, []).append(record)
    return groups


def _notes(records: "list[ScoreRecord]", conditions: Sequence[str]) -> list[str]:
    first = records[0]
    rows = counted(first.n_rows, "row")
    if first.n_groups < first.n_rows:
        rows += f" in {counted(first.n_groups, 'group')}"
    is_infomec = any(record.score in _INFOMEC for record in records)
    preset = f"; InfoMEC: {first.infomec}" if is_infomec else ""
    notes = [f"{rows}, {counted(first.n_factors, 'factor')}{preset}"]
    if any(record.seed != first.seed for record in records):
        notes.append("value: mean over seeds ± deviation; the lines below it: first seed")
    tested = next((record for record in records if record.null_scheme), None)
    if tested is not None:
        notes.append(
            f"{SHUFFLE.told}: mean of {tested.n_null} rounds, "
            f"{SHUFFLED[tested.null_scheme or 'rows']} shuffled; {SHUFFLE.p_line}: how often "
            f"chance scores as high, at least {number(tested.smallest_p)}"
        )
    if any(record.score in _WITHOUT_NULL for record in records):
        notes.append("DCI has neither null nor interval: its trees are too dear to grow again")
    notes += [_latent_note(records, condition) for condition in conditions]
    return notes + distinct(f"{r.condition}, {r.score}: {r.reason}" for r in records if r.reason)


def _latent_note(records: "list[ScoreRecord]", condition: str) -> str:
    first = next(record for record in records if record.condition == condition)
    text = f"{condition}: {first.n_active} of {first.n_latents} latents active"
    if first.iterations is not None:
        end = "converged" if first.converged else "NOT converged"
        text += f"; {first.ica_solver} ICA {end} after {first.iterations} passes"
    return text


def _over_seeds(records: "list[ScoreRecord]") -> str:
    values = [record.value for record in records if record.value is not None]
    if len(values) < 2:
        return number(values[0]) if values else UNDEFINED
    return f"{number(float(np.mean(values)))} ± {number(float(np.std(values, ddof=1)))}"


def _batch_table(records: "list[BatchRecord]", conditions: Sequence[str]) -> Table:
    by_measure: dict[tuple[str, float | None], list[BatchRecord]] = {}
    for record in records:
        by_measure.setdefault((record.measure, record.top_share), []).append(record)
    lines: list[Line] = []
    for (measure, share), members in by_measure.items():
        null = next((record.null for record in members if record.null is not None), None)
        percent = "" if share is None else f"{100 * share:g} %"
        heading = measure_called(measure).heading.format(share=percent, null=number(null))
        lines.append(Line(heading))
        for label in distinct(record.label for record in members):
            by_condition = {r.condition: r for r in members if r.label == label}
            cells = tuple(_batch_cell(by_condition.get(condition)) for condition in conditions)
            lines.append(Line(f"  {label}", cells))
    titles = tuple(condition_kind(name).title for name in conditions)
    notes = distinct(f"{r.label}, {r.condition}: {r.reason}" for r in records if r.reason)
    return Table(titles, tuple(lines), _batch_title(records[0]), tuple(notes))


def _batch_title(first: "BatchRecord") -> str:
    if first.protocol == "rows":
        return f"{first.source}: batches told from rows"
    fit = "all rows" if first.fit_on == "all" else "training rows only"
    return (
        f"{first.source}: {first.protocol}, {first.n_batches} batches, mean ± sd over folds; "
        f"whitening and ICA fitted on {fit}"
    )


def _batch_cell(record: "BatchRecord | None") -> str:
    if record is None:
        return UNDEFINED
    spread = "" if record.sd is None else f" ± {number(record.sd)}"
    return f"{number(record.value)}{spread}"
