"""Columns of a table beside the rows of a set of embeddings, joined by identity."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repalign.aliases import IntArray, MismatchPolicy
from repalign.data.factors import ColumnTable, has_missing, read_columns, table_of
from repalign.exceptions import RowMismatchError
from repalign.store.sources.opening import open_embeddings
from repalign.store.sources.source import EmbeddingSource, parse_locator

Columns = str | Path | ColumnTable | Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class RowColumns:
    """The rows of the embeddings that have values, ascending, and their values by column."""

    rows: IntArray
    columns: Mapping[str, NDArray[Any]]
    notes: tuple[str, ...]


def open_columns(columns: Columns, *, id_column: str | None = None) -> ColumnTable:
    """Return a table from a file, a mapping of arrays, a view of a store, or a table itself.

    ``store.h5::factors`` are the columns of that view, called ``factors.0``, ``factors.1``, ….
    """
    if isinstance(columns, ColumnTable):
        return columns
    if isinstance(columns, Mapping):
        return table_of(columns)
    locator = parse_locator(columns)
    if locator.view is None:
        return read_columns(locator.path, id_column=id_column)
    source = open_embeddings(columns, id_column=id_column)
    values = source.rows.read(0, source.n_rows)
    titles = (f"{locator.view}.{j}" for j in range(source.dim))
    return table_of(
        dict(zip(titles, values.T, strict=True)), ids=_ids_of(source), name=str(columns)
    )


def align_columns(
    source: EmbeddingSource,
    table: ColumnTable,
    names: tuple[str, ...] | None = None,
    *,
    policy: MismatchPolicy = "refuse",
) -> RowColumns:
    """Find the values of every row: by id where both sides have ids, else by sample or order.

    Rows with a missing value in one of the columns are left out, with a note.

    Raises:
        InputError: an unknown column.
        RowMismatchError: a row has no entry in the table and the policy is "refuse", nothing is
            in common, or without ids the numbers of rows differ.
    """
    chosen = {name: table.column(name) for name in (names or tuple(table.columns))}
    places, notes = _places(source, table)
    found = places >= 0
    if not found.all():
        lost = int((~found).sum())
        first = int(np.argmin(found))
        text = (
            f"{table.source}: has no entry for {lost} of the {source.n_rows} rows of "
            f"{source.name} (the first is {_name_of(source, first)})"
        )
        if policy == "refuse" or not found.any():
            raise RowMismatchError(f"{text}; add them, or go on with --on-mismatch intersect")
        notes.append(f"{text}; they were left out")
    values = {name: column[places[found]] for name, column in chosen.items()}
    rows = np.flatnonzero(found)
    missing = np.zeros(rows.size, dtype=np.bool_)
    for name, column in values.items():
        gaps = has_missing(column)
        if gaps.any():
            notes.append(f"{int(gaps.sum())} rows have no value of {name} and were left out")
        missing |= gaps
    if missing.all():
        raise RowMismatchError(
            f"{table.source}: no row has a value of each of {', '.join(chosen)}; choose others"
        )
    kept = {name: column[~missing] for name, column in values.items()}
    return RowColumns(rows[~missing], kept, (*table.notes, *notes))


def _places(source: EmbeddingSource, table: ColumnTable) -> tuple[IntArray, list[str]]:
    """Return for every row of the embeddings the row of the table, -1 where there is none."""
    ids = _ids_of(source)
    if ids is not None and table.ids is not None:
        place = {one: number for number, one in enumerate(table.ids)}
        return np.array([place.get(one, -1) for one in ids], dtype=np.int64), []
    if source.n_rows == table.n_rows:
        note = f"{table.source} and {source.name} were matched by row order: no ids on both sides"
        return np.arange(source.n_rows), [note]
    samples = source.index.sample
    if source.has_sample_numbers and int(samples.max()) < table.n_rows:
        note = f"{table.source} was matched to the sample numbers of {source.name}"
        return np.asarray(samples, dtype=np.int64), [note]
    raise RowMismatchError(
        f"{table.source} has {table.n_rows} rows and {source.name} {source.n_rows}, without ids "
        "on both sides; give ids to both, or the same rows in the same order"
    )


def _ids_of(source: EmbeddingSource) -> tuple[str, ...] | None:
    if source.index.ids is None:
        return None
    return tuple(one.decode() for one in source.index.ids.tolist())


def _name_of(source: EmbeddingSource, row: int) -> str:
    ids = _ids_of(source)
    return f"row {row}" if ids is None else repr(ids[row])
