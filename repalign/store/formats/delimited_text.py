"""Embeddings in text: ``.csv`` and ``.tsv`` with a header or without, ``.txt`` of numbers."""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from repalign.delimited import DelimitedText, is_number, is_text, open_delimited
from repalign.exceptions import InputError
from repalign.store.formats.contents import (
    ID_NAMES,
    ForeignMatrix,
    ForeignRequest,
    check_matrix_shape,
)
from repalign.store.formats.identifiers import RowIdentities
from repalign.store.rows import spool_blocks

if TYPE_CHECKING:
    import pandas as pd

INDEX_NAMES = ("", "Unnamed: 0")  # of the first column: the index that pandas writes, R's row names


def read_delimited_text(request: ForeignRequest) -> ForeignMatrix:
    """Open a table of text as a matrix; it is read once, into a temporary file.

    Ids are the column ``id_column``, or one named ``id``, ``ids`` or ``sample_id``, or the first
    column if it has no name (the index that pandas writes) or holds text. Other columns of text
    are left out.
    """
    label = str(request.path)
    if request.view is not None:
        raise InputError(f"{label}: a table has no view {request.view!r}; leave it out")
    table = open_delimited(request.path)
    id_name = _id_column(request, table)
    identities = [name for name in table.names if name in (id_name, *RowIdentities.NAMES)]
    is_index = table.has_header and table.names[0] in INDEX_NAMES
    candidates = [
        name
        for name in table.names[is_index:]
        if name not in identities and not (table.has_header and request.leaves_out(name))
    ]
    blocks = table.blocks()
    first = next(blocks, None)
    values, first_cells = candidates, None
    if first is not None and candidates:
        try:
            first_cells = _floats(table, first, candidates, identities)
        except ValueError:
            values = _number_columns(table, first, candidates)
    if not values:
        raise InputError(f"{label}: has no column of numbers; expected one for each dimension")
    row_identities = RowIdentities(id_name=id_name, label=label)
    texts = chain([] if first is None else [first], blocks)
    raw = spool_blocks(
        _value_blocks(table, texts, values, row_identities, first_cells),
        # a value takes at least two bytes of text: this bounds the rows before they are counted
        n_rows=request.path.stat().st_size // (2 * len(values)) + 1,
        n_columns=len(values),
        dtype=np.dtype(np.float64),
        label=label,
    )
    check_matrix_shape(raw.shape, label=label)
    return ForeignMatrix(
        view=request.path.stem,
        raw=raw,
        layout="table of text",
        ids=row_identities.ids(),
        ids_from="" if id_name is None else f"{label}::{id_name or 'index'}",
        token=row_identities.token(),
        sample_sha=row_identities.sample_sha(),
        columns=values if table.has_header else None,
        left_out=[name for name in table.names if name not in (*values, *identities)],
        details=table.layout,
    )


def _id_column(request: ForeignRequest, table: DelimitedText) -> str | None:
    if request.id_column is not None:
        return table.names[table.place(request.id_column)]
    if not table.has_header:
        return None
    id_name = next((name for name in table.names if name.lower() in ID_NAMES), None)
    name = table.names[0]
    if id_name is not None or name in INDEX_NAMES:
        return name if id_name is None else id_name
    has_text = bool(table.head) and is_text(table.head[0])
    return name if has_text and not request.leaves_out(name) else None


def _number_columns(table: DelimitedText, block: str, names: list[str]) -> list[str]:
    """Return the columns of which no more than half of the filled cells are text."""
    frame = table.parse(block, names, dtype=str, na_filter=False)
    cells = {name: [cell for cell in frame[name].tolist() if cell.strip()] for name in names}
    return [name for name in names if 2 * sum(map(is_text, cells[name])) <= len(cells[name])]


def _value_blocks(
    table: DelimitedText,
    blocks: Iterable[str],
    values: list[str],
    row_identities: RowIdentities,
    first_cells: "pd.DataFrame | None",
) -> Iterator[NDArray[np.float64]]:
    """Yield the numbers of the blocks, the first of which may be parsed already."""
    names = [name for name in table.names if name in row_identities.names]
    row = 0
    for block in blocks:
        try:
            cells = _floats(table, block, values, names) if first_cells is None else first_cells
            numbers = cells[values].to_numpy()
        except ValueError:
            cells = table.parse(block, [*values, *names], dtype=str, na_filter=False)
            columns = [_numbers(table, name, cells[name].tolist(), row) for name in values]
            numbers = np.stack(columns, axis=1)
        row_identities.add({name: cells[name].tolist() for name in names})
        yield numbers
        first_cells = None
        row += len(numbers)


def _floats(
    table: DelimitedText, block: str, values: list[str], texts: list[str]
) -> "pd.DataFrame":
    """Return some columns as numbers and some as text.

    Raises:
        ValueError: a cell is not a number that pandas reads, which is all but NaN.
    """
    head = table.parse(block, values, dtype=str, na_filter=False, nrows=1).iloc[0]
    if not all(is_number(cell, table.decimal) for cell in head):
        raise ValueError  # of True, which pandas takes for 1 where a whole column is so
    types = dict.fromkeys(values, np.float64) | dict.fromkeys(texts, str)
    return table.parse(block, [*values, *texts], dtype=types, na_filter=False)


def _numbers(
    table: DelimitedText, name: str, cells: list[str], first_row: int
) -> NDArray[np.float64]:
    """Return cells as numbers; the first one that is not a number is named."""
    for row, cell in enumerate(cells, start=first_row):
        if not is_number(cell, table.decimal):
            problem, advice = "has a missing value", "fill it, or leave the row out"
            if cell.strip():
                problem = f"has {cell.strip()!r}"
                advice = "name the column of ids if it is one"
            raise InputError(
                f"{table.path}: row {row} {problem} in column {name!r}; expected a number in every "
                f"cell ({advice})"
            )
    return np.array([float(cell.replace(table.decimal, ".")) for cell in cells])
