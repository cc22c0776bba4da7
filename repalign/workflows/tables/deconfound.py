"""The records of ``deconfound`` as the tables that people read."""

from collections.abc import Iterable

from repalign.core.batches.measures import measure_called
from repalign.core.conditions.kinds import condition_kind
from repalign.workflows.deconfound.results import BatchRecord, DeconfoundResult
from repalign.workflows.tables.table import UNDEFINED, Line, Table, distinct, number


def batch_tables(result: DeconfoundResult) -> tuple[Table, ...]:
    """Return a table for each protocol, in the layout of the paper's Tables 3 and 4."""
    return tuple(_batch_tables(list(result.records)))


def _batch_tables(records: list[BatchRecord]) -> Iterable[Table]:
    conditions = distinct(one.condition for one in records)
    for protocol in distinct(one.protocol for one in records):
        rows: list[Line] = []
        members = [one for one in records if one.protocol == protocol]
        for measure, share in distinct((one.measure, one.top_share) for one in members):
            found = [one for one in members if (one.measure, one.top_share) == (measure, share)]
            null = next((one.null for one in found if one.null is not None), None)
            title = measure_called(measure).heading.format(
                share="" if share is None else f"{100 * share:g} %", null=number(null)
            )
            rows.append(Line(title))
            rows += _label_rows(found, conditions)
        notes = distinct(
            f"{one.label}, {one.condition}: {one.reason}" for one in members if one.reason
        )
        titles = tuple(condition_kind(name).title for name in conditions)
        yield Table(titles, tuple(rows), _title(members[0]), tuple(notes))


def _title(first: BatchRecord) -> str:
    if first.protocol == "rows":
        return f"{first.source}: batches told from rows"
    fit = "all rows" if first.fit_on == "all" else "training rows only"
    return (
        f"{first.source}: {first.protocol}, {first.n_batches} batches, mean ± sd over folds; "
        f"whitening and ICA fitted on {fit}"
    )


def _label_rows(records: list[BatchRecord], conditions: list[str]) -> list[Line]:
    rows = []
    for label in distinct(one.label for one in records):
        by_condition = {one.condition: one for one in records if one.label == label}
        cells = []
        for condition in conditions:
            one = by_condition.get(condition)
            cell = UNDEFINED if one is None else number(one.value)
            if one is not None and one.sd is not None:
                cell += f" ± {number(one.sd)}"
            cells.append(cell)
        rows.append(Line(f"  {label}", tuple(cells)))
    return rows
