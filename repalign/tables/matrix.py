"""One number for each pair of views: sources down, targets across, models in blocks.

The numbers of a row belong to different targets, so that errors are over the RMS radius here.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from repalign.exceptions import InputError
from repalign.tables.quantities import (
    SPLITS,
    Quantity,
    favourite,
    full_name,
    holds,
    quantities_in,
    reading_across_targets,
)
from repalign.tables.table import UNDEFINED, Line, Table, distinct, number

Record = Mapping[str, Any]
SIDES = ("source", "target")


@dataclass(frozen=True)
class View:
    """One row or column: a view of a model, and its place among the layers where that is known."""

    model: str
    view: str
    layer: int | None = None

    @property
    def name(self) -> str:
        """Model and view."""
        return f"{self.model}::{self.view}" if self.view else self.model

    @property
    def short(self) -> str:
        """The view alone, or the model that has no other."""
        return self.view or self.model


@dataclass(frozen=True)
class Matrix:
    """One quantity of every pair that was compared.

    Attributes:
        quantity: What it is.
        split: On which rows it was judged.
        rows: Sources.
        columns: Targets.
        values: By the numbers of row and column; undefined ones are None, others are missing.
        others: What was measured and is not shown.
        n_rows: The least and the largest number of rows on which a pair was judged.
    """

    quantity: Quantity
    split: str
    rows: tuple[View, ...]
    columns: tuple[View, ...]
    values: Mapping[tuple[int, int], float | None]
    others: tuple[str, ...] = ()
    n_rows: tuple[int, int] = (0, 0)

    @property
    def caption(self) -> str:
        """What the numbers are, on which rows, and which way is closer."""
        unit = " error / rms radius" if self.quantity.is_error else ""
        return f"{self.quantity.name}{unit}, {self.rows_text}, {self.quantity.closer} is closer"

    @property
    def rows_text(self) -> str:
        """On which rows, and on how many."""
        least, most = self.n_rows
        count = f"{least}" if least == most else f"{least} to {most}"
        if not self.quantity.fits:
            return f"all {count} rows"
        return f"{self.split}, {count} rows"

    @property
    def notes(self) -> tuple[str, ...]:
        """What it leaves out."""
        notes = []
        n_cells = len(self.rows) * len(self.columns)
        if len(self.values) < n_cells:
            n_blank = n_cells - len(self.values)
            notes.append(f"blank: {n_blank} of {n_cells} pairs were not compared in this direction")
        n_undefined = sum(value is None for value in self.values.values())
        if n_undefined:
            notes.append(f"{UNDEFINED}: {n_undefined} undefined")
        if self.others:
            notes.append(f"also measured: {', '.join(self.others)} (--show)")
        return tuple(notes)

    def closest(self) -> dict[tuple[int, str], int]:
        """Return the column of the closest target of every source, by row and model of targets.

        Only of models of several views, all of which were compared with the source.
        """
        sign = 1 if self.quantity.closer == "lower" else -1
        closest = {}
        for model, columns in blocks_of(self.columns):
            for row in range(len(self.rows)):
                cells = {column: self.values.get((row, column)) for column in columns}
                values = {column: sign * cell for column, cell in cells.items() if cell is not None}
                if len(columns) > 1 and len(values) == len(columns):
                    closest[row, model] = min(values, key=values.__getitem__)
        return closest

    def tables(self) -> Iterator[Table]:
        """Yield a table for each model of the targets, or one where each has one view alone."""
        heading = self.quantity.heading_across_targets
        title = f"{heading} {self.rows_text}, from rows to columns"
        blocks = list(blocks_of(self.columns))
        if all(len(places) == 1 for _, places in blocks):
            names = tuple(column.name for column in self.columns)
            yield Table(names, tuple(self._lines(range(len(names)), {})), title, self.notes)
            return
        for model, places in blocks:
            is_last = places[-1] == len(self.columns) - 1
            best = {row: at for (row, of), at in self.closest().items() if of == model}
            yield Table(
                (*(self.columns[place].short for place in places), *(["closest"] if best else [])),
                tuple(self._lines(places, best)),
                f"{title} of {model}",
                self.notes if is_last else (),
            )

    def _lines(self, columns: Sequence[int], best: Mapping[int, int]) -> Iterator[Line]:
        """Yield the lines of some columns; a model of several views is a block with a heading."""
        for model, members in blocks_of(self.rows):
            if not any((row, column) in self.values for row in members for column in columns):
                continue
            is_block = len(members) > 1
            if is_block:
                yield Line(f"from {model}")
            for row in members:
                name = f"  {self.rows[row].short}" if is_block else self.rows[row].name
                cells = [self._cell(row, column) for column in columns]
                if best:
                    cells.append(self.columns[best[row]].short if row in best else "")
                # a view that was compared with none of them is a heading without lines
                yield Line(name, tuple(cells) if any(cells) else ())

    def to_records(self) -> list[dict[str, Any]]:
        """Return a record a row: the source, then its value for every target."""
        corner = f"{self.caption}; source \\ target"
        return [
            {corner: row.name}
            | {
                column.name: self.values.get((place, across))
                for across, column in enumerate(self.columns)
            }
            for place, row in enumerate(self.rows)
        ]

    def _cell(self, row: int, column: int) -> str:
        if (row, column) not in self.values:
            return ""
        value = self.values[row, column]
        return UNDEFINED if value is None else number(value)


def make_matrix(records: Sequence[Record], name: str | None = None) -> Matrix:
    """Arrange one quantity of some records, held-out where that is judged.

    Views stand in the order of the layers where these are known, else as they come. A view that
    is only ever a target has no row, and one that is only ever a source no column; a measure
    that is the same in both directions fills both.

    Raises:
        InputError: The records hold no such quantity.
    """
    known = quantities_in(records)
    quantity = chosen_quantity(known, name)
    chosen = [record for record in records if holds(record, quantity)]
    splits = {record["split"] for record in chosen}
    split = next(split for split in SPLITS if split in splits)
    chosen = [record for record in chosen if record["split"] == split]
    counts = [record["n_rows"] for record in chosen]
    values: dict[tuple[View, View], float | None] = {}
    for record in chosen:
        source, target = (_view(record, side) for side in SIDES)
        values[source, target] = reading_across_targets(record, quantity).value
        if quantity.is_symmetric:
            values.setdefault((target, source), values[source, target])
    views = _ordered(view for pair in values for view in pair)
    rows = tuple(view for view in views if any(source == view for source, _ in values))
    columns = tuple(view for view in views if any(target == view for _, target in values))
    return Matrix(
        quantity=quantity,
        split=split,
        rows=rows,
        columns=columns,
        values={(rows.index(a), columns.index(b)): value for (a, b), value in values.items()},
        others=tuple(q.name for q in known if q.name != quantity.name),
        n_rows=(min(counts), max(counts)),
    )


def chosen_quantity(known: Sequence[Quantity], name: str | None) -> Quantity:
    """Return the quantity of a name, or the favourite where none is given.

    Raises:
        InputError: It is not among those that are known.
    """
    if name is None:
        return favourite(known)
    for quantity in known:
        if quantity.name == full_name(name):
            return quantity
    raise InputError(
        f"--show: {name!r} is not measured here; expected one of "
        f"{', '.join(quantity.name for quantity in known)}"
    )


def blocks_of(views: Sequence[View]) -> Iterator[tuple[str, list[int]]]:
    """Yield every run of views of one model, with their places."""
    places = groupby(range(len(views)), key=lambda place: views[place].model)
    for model, members in places:
        yield model, list(members)


def arranged(matrix: Matrix, rows: Sequence[int], columns: Sequence[int]) -> Matrix:
    """Return a matrix with its rows and columns in another order."""
    row_of = {old: new for new, old in enumerate(rows)}
    column_of = {old: new for new, old in enumerate(columns)}
    return replace(
        matrix,
        rows=tuple(matrix.rows[row] for row in rows),
        columns=tuple(matrix.columns[column] for column in columns),
        values={(row_of[r], column_of[c]): value for (r, c), value in matrix.values.items()},
    )


def _view(record: Record, side: str) -> View:
    return View(
        str(record[side]), str(record.get(f"{side}_view") or ""), record.get(f"{side}_layer")
    )


def _ordered(views_of_pairs: Iterable[View]) -> list[View]:
    """Return views without repetition: models as they come, layers as they follow each other."""
    views = distinct(views_of_pairs)
    models = distinct(view.model for view in views)
    come = {view: place for place, view in enumerate(views)}
    return sorted(
        views,
        key=lambda view: (
            models.index(view.model),
            come[view] if view.layer is None else view.layer,
            come[view],
        ),
    )
