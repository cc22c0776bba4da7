"""The records of ``disentangle`` as the tables that people read."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from repalign.workflows.disentangle.results import BatchRecord, DisentangleResult, ScoreRecord
from repalign.workflows.tables.layout import Layout, Line

UNDEFINED = "n/a"
PAPER_SCORES = ("InfoM", "InfoE", "InfoC")
CONDITION_TITLES = {"pca+rotation": "pca+random rotation", "ica": "ica (no whitening)"}
MEASURE_TITLES = {
    "AUROC": "AUROC ↑",
    "Hoyer": "Hoyer sparsity of splits ↑",
    "AUROC-permuted": "AUROC, labels permuted within batches (the null)",
    "AUROC-top": "AUROC of the top {share}",
    "AUROC-rest": "AUROC of the rest ({share} left out)",
    "concentration-difference": "concentration ↑, top {share} − rest",
    "concentration-relative": "concentration ↑, top {share} / rest − 1",
    "concentration-above-chance": "concentration ↑, (top {share} − rest) / (top − ½)",
    "batch-accuracy": "batch told from the rows, balanced accuracy ↓ (chance {null})",
}


@dataclass(frozen=True)
class GridRow:
    """A label and one cell for each column; details are shown dimmed."""

    label: str
    cells: tuple[str, ...]
    is_detail: bool = False


@dataclass(frozen=True)
class Grid:
    """One table: title, columns, rows, and the notes below."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[GridRow, ...]
    notes: tuple[str, ...] = ()

    def layout(self) -> Layout:
        """Return the table as Markdown and LaTeX write it."""
        return Layout(
            columns=("", *self.columns),
            lines=tuple(
                Line((row.label, *row.cells), is_heading=row.is_detail and not any(row.cells))
                for row in self.rows
            ),
            title=self.title,
            notes=self.notes,
        )


def tables_of(result: DisentangleResult) -> tuple[Grid, ...]:
    """Return the tables of a result: one a source for factors, one a protocol for batches."""
    if result.records and isinstance(result.records[0], BatchRecord):
        batches = [one for one in result.records if isinstance(one, BatchRecord)]
        return tuple(_batch_grids(batches))
    scores = [one for one in result.records if isinstance(one, ScoreRecord)]
    return tuple(_score_grid(title, members) for title, members in _by_origin(scores).items())


def paper_tables(result: DisentangleResult) -> tuple[Grid, ...]:
    """Return the tables in the paper's layout: Table 2 for factors, Tables 3 and 4 for batches."""
    if result.records and isinstance(result.records[0], BatchRecord):
        return tables_of(result)
    scores = [one for one in result.records if isinstance(one, ScoreRecord)]
    names = [name for name in PAPER_SCORES if any(one.score == name for one in scores)]
    names = names or _distinct(one.score for one in scores)
    rows = []
    for title, members in _by_origin(scores).items():
        for condition in _distinct(one.condition for one in members):
            cells = []
            for name in names:
                found = [one for one in members if (one.condition, one.score) == (condition, name)]
                cells.append(_over_seeds([one.value for one in found]))
            rows.append(GridRow(f"{title} {_condition(condition)}", tuple(cells)))
    return (Grid("disentanglement", tuple(f"{name} ↑" for name in names), tuple(rows)),)


def _score_grid(source: str, records: list[ScoreRecord]) -> Grid:
    conditions = _distinct(one.condition for one in records)
    rows: list[GridRow] = []
    for score in _distinct(one.score for one in records):
        by_condition = [
            [one for one in records if (one.score, one.condition) == (score, condition)]
            for condition in conditions
        ]
        values = tuple(_over_seeds([one.value for one in found]) for found in by_condition)
        rows.append(GridRow(f"{score} ↑", values))
        firsts = [found[0] for found in by_condition]
        if any(one.ci_low is not None for one in firsts):
            cells = tuple(_interval(one.ci_low, one.ci_high) for one in firsts)
            rows.append(GridRow("  95 %", cells, is_detail=True))
        if any(one.null is not None for one in firsts):
            cells = tuple(_number(one.null) for one in firsts)
            rows.append(GridRow("  factors shuffled", cells, is_detail=True))
    first = records[0]
    notes = [
        f"{first.n_rows} rows, {first.n_factors} factors; InfoMEC: {first.infomec}; "
        "value: mean over seeds ± deviation; interval and shuffled factors: first seed"
    ]
    notes += _latent_notes(records, conditions)
    notes += _distinct(
        f"{one.condition}, {one.score}: {one.reason}" for one in records if one.reason
    )
    return Grid(source, tuple(_condition(name) for name in conditions), tuple(rows), tuple(notes))


def _by_origin(records: list[ScoreRecord]) -> dict[str, list[ScoreRecord]]:
    """Group records by source; the view is named where a source has several."""
    views: dict[str, set[str]] = {}
    for one in records:
        views.setdefault(one.source, set()).add(one.view)
    groups: dict[str, list[ScoreRecord]] = {}
    for one in records:
        title = one.source if len(views[one.source]) == 1 else f"{one.source}::{one.view}"
        groups.setdefault(title, []).append(one)
    return groups


def _latent_notes(records: list[ScoreRecord], conditions: list[str]) -> list[str]:
    notes = []
    for condition in conditions:
        one = next(record for record in records if record.condition == condition)
        text = f"{condition}: {one.n_active} of {one.n_latents} latents active"
        if one.iterations is not None:
            ended = "converged" if one.converged else "NOT converged"
            text += f"; {one.ica_solver} ICA {ended} after {one.iterations} passes"
        notes.append(text)
    return notes


def _batch_grids(records: list[BatchRecord]) -> Iterable[Grid]:
    conditions = _distinct(one.condition for one in records)
    for protocol in _distinct(one.protocol for one in records):
        rows: list[GridRow] = []
        members = [one for one in records if one.protocol == protocol]
        for measure, share in _distinct((one.measure, one.top_share) for one in members):
            found = [one for one in members if (one.measure, one.top_share) == (measure, share)]
            null = next((one.null for one in found if one.null is not None), None)
            title = MEASURE_TITLES.get(measure, measure).format(
                share="" if share is None else f"{100 * share:g} %", null=_number(null)
            )
            rows.append(GridRow(title, ("",) * len(conditions), is_detail=True))
            rows += _label_rows(found, conditions)
        notes = _distinct(
            f"{one.label}, {one.condition}: {one.reason}" for one in members if one.reason
        )
        yield Grid(
            _batch_title(members[0]), tuple(map(_condition, conditions)), tuple(rows), tuple(notes)
        )


def _batch_title(first: BatchRecord) -> str:
    if first.protocol == "rows":
        return f"{first.source}: batches told from rows"
    fit = "all rows" if first.fit_on == "all" else "training rows only"
    return (
        f"{first.source}: {first.protocol}, {first.n_batches} batches, mean ± standard error; "
        f"whitening and ICA fitted on {fit}"
    )


def _label_rows(records: list[BatchRecord], conditions: list[str]) -> list[GridRow]:
    rows = []
    for label in _distinct(one.label for one in records):
        by_condition = {one.condition: one for one in records if one.label == label}
        cells = []
        for condition in conditions:
            one = by_condition.get(condition)
            cell = UNDEFINED if one is None else _number(one.value)
            if one is not None and one.standard_error is not None:
                cell += f" ± {_number(one.standard_error)}"
            cells.append(cell)
        rows.append(GridRow(f"  {label}", tuple(cells)))
    return rows


def _over_seeds(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return UNDEFINED
    if len(known) == 1:
        return _number(known[0])
    return f"{_number(float(np.mean(known)))} ± {_number(float(np.std(known, ddof=1)))}"


def _number(value: float | None) -> str:
    return UNDEFINED if value is None else f"{value:.3f}"


def _interval(low: float | None, high: float | None) -> str:
    return UNDEFINED if low is None or high is None else f"{low:.3f} to {high:.3f}"


def _condition(name: str) -> str:
    return CONDITION_TITLES.get(name, name)


def _distinct(values: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(values))
