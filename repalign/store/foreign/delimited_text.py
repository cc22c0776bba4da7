"""Embeddings in text: ``.csv`` and ``.tsv`` with a header or without, ``.txt`` of numbers."""

import csv
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from repalign.exceptions import InputError
from repalign.store.foreign.contents import (
    ID_NAMES,
    ForeignMatrix,
    ForeignRequest,
    check_matrix_shape,
)
from repalign.store.foreign.damage import refuse_damage
from repalign.store.foreign.row_identities import RowIdentities
from repalign.store.rows.spool import spool_blocks

if TYPE_CHECKING:
    import pandas as pd

SEPARATORS = {".csv": ",", ".tsv": "\t", ".txt": r"\s+"}
BLOCK_VALUES = 2**23
MAX_LINE_BYTES = 2**26
MAX_TEXT_COLUMNS = 2**15  # a column costs a fraction of a millisecond, however few the rows


@dataclass(frozen=True)
class _Layout:
    """What the first lines of a text file tell."""

    names: tuple[str, ...]
    has_header: bool
    separator: str
    id_name: str | None
    value_names: tuple[str, ...]


def read_delimited_text(request: ForeignRequest) -> ForeignMatrix:
    """Open a table of text as a matrix; it is read once, into a temporary file.

    Ids are the column ``id_column``, or one named ``id``, ``ids`` or ``sample_id``, or the first
    column if it has no name (the index that pandas writes) or holds text.
    """
    if request.view is not None:
        raise InputError(f"{request.path}: a table has no view {request.view!r}; leave it out")
    layout = _read_layout(request)
    label = str(request.path)
    kept = RowIdentities(id_name=layout.id_name, label=label)
    n_columns = len(layout.value_names)
    check_matrix_shape((1, n_columns), label=label)
    raw = spool_blocks(
        _value_blocks(request.path, layout, kept),
        # a value takes at least two bytes of text: this bounds the rows before they are counted
        n_rows=request.path.stat().st_size // (2 * n_columns) + 1,
        n_columns=n_columns,
        dtype=np.dtype(np.float64),
        label=label,
    )
    check_matrix_shape(raw.shape, label=label)
    return ForeignMatrix(
        view=request.path.stem,
        raw=raw,
        layout="table of text",
        ids=kept.ids(),
        ids_from="" if layout.id_name is None else f"{request.path}::{layout.id_name or 'index'}",
        token=kept.token(),
        sample_sha=kept.sample_sha(),
        columns=layout.value_names if layout.has_header else None,
    )


def _read_layout(request: ForeignRequest) -> _Layout:
    separator = SEPARATORS[request.path.suffix.lower()]
    first, second = _first_lines(request.path, separator)
    has_header = not all(_is_number(field) for field in first)
    names = tuple(first) if has_header else tuple(str(place) for place in range(len(first)))
    if len(names) > MAX_TEXT_COLUMNS:
        raise InputError(
            f"{request.path}: has {len(names)} columns; at most {MAX_TEXT_COLUMNS} are read from "
            "text, save wider tables as .npy"
        )
    repeated = next((name for name, count in Counter(names).items() if count > 1), None)
    if repeated is not None:
        raise InputError(f"{request.path}: has two columns {repeated!r}; rename one")
    id_name = _id_column(request, names, second, has_header=has_header)
    values = tuple(name for name in names if name != id_name and name not in RowIdentities.NAMES)
    if not values:
        raise InputError(f"{request.path}: has no column of numbers beside the ids")
    return _Layout(names, has_header, separator, id_name, values)


def _first_lines(path: Path, separator: str) -> tuple[list[str], list[str]]:
    """Return the fields of the first two lines."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            lines = [stream.readline(MAX_LINE_BYTES) for _ in range(2)]
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8 text; expected a table of numbers") from error
    if not lines[0].strip():
        raise InputError(f"{path}: is empty; expected a table of numbers")
    with refuse_damage(f"{path}: is no readable table", csv.Error):
        if len(separator) == 1:
            parsed = list(csv.reader(lines, delimiter=separator))
        else:
            parsed = [line.split() for line in lines]
    return parsed[0], parsed[1] if len(parsed) > 1 else []


def _id_column(
    request: ForeignRequest, names: tuple[str, ...], second: list[str], *, has_header: bool
) -> str | None:
    if request.id_column is not None:
        if request.id_column not in names or not has_header:
            raise InputError(
                f"{request.path}: has no column {request.id_column!r}; "
                f"it has {', '.join(names[:12])}{', …' if len(names) > 12 else ''}"
            )
        return request.id_column
    named = next((name for name in names if name.lower() in ID_NAMES), None)
    if named is not None or not has_header:
        return named
    # pandas writes its index as a first column without a name; reading it as a value would add
    # the row number to every embedding
    is_index = names[0] in ("", "Unnamed: 0")
    is_text = bool(second) and not _is_number(second[0])
    return names[0] if is_index or is_text else None


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _value_blocks(path: Path, layout: _Layout, kept: RowIdentities) -> Iterator[NDArray[Any]]:
    import pandas as pd

    text_names = [name for name in layout.names if name not in layout.value_names]
    types: dict[str, Any] = dict.fromkeys(text_names, str)
    row = 0
    with (
        refuse_damage(f"{path}: is no readable table"),
        pd.read_csv(
            path,
            sep=layout.separator,
            header=0 if layout.has_header else None,
            names=list(layout.names),
            index_col=False,
            dtype=types,
            keep_default_na=False,
            na_filter=False,
            float_precision="round_trip",
            chunksize=max(1, BLOCK_VALUES // len(layout.names)),
            encoding="utf-8-sig",
        ) as chunks,
    ):
        for chunk in chunks:
            kept.add({name: chunk[name].tolist() for name in text_names})
            yield _numbers(chunk[list(layout.value_names)], first_row=row, path=path)
            row += len(chunk)


def _numbers(chunk: "pd.DataFrame", *, first_row: int, path: Path) -> NDArray[np.float64]:
    """Return a block of cells as numbers; the first cell that is none is named."""
    try:
        return chunk.to_numpy(dtype=np.float64)
    except (ValueError, TypeError) as error:
        for name in chunk.columns:
            # not by pandas, which a number with a long exponent crashes
            bad = (row for row, cell in enumerate(chunk[name]) if not _is_number(str(cell)))
            if (row := next(bad, None)) is not None:
                cell = str(chunk[name].iloc[row]).strip()
                place = f"{path}: row {first_row + row} has"
                if not cell:
                    raise InputError(
                        f"{place} a missing value in column {name!r}; expected a number in every "
                        "cell: fill it, or leave the row out"
                    ) from error
                raise InputError(
                    f"{place} {cell!r} in column {name!r}; expected a number (name the column of "
                    "ids if it is one)"
                ) from error
        raise InputError(f"{path}: holds cells that are no numbers ({error})") from error
