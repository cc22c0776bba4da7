"""Tables of factors, labels and batches: named columns with one value for every row.

Readable are CSV, TSV, Parquet and npz files. An id column tells which row is which input.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from repalign.delimited import ID_NAMES, MAX_COLUMNS, open_delimited
from repalign.exceptions import InputError
from repalign.expansion import check_copy
from repalign.files import check_regular
from repalign.npy import NpzArchive
from repalign.parquet import ParquetTable, reading_arrow, text_lengths
from repalign.printable import counted

if TYPE_CHECKING:
    import pandas as pd

# Of an index: of pandas and R in text, of pandas in parquet.
INDEX_NAMES = ("", "Unnamed: 0", "__index_level_0__")
SUFFIXES = (".csv", ".tsv", ".npz", ".parquet")
LETTER_BYTES = 4  # of an array of numpy, whose texts are all as long as the longest


@dataclass(frozen=True, eq=False)
class ColumnTable:
    """Columns of equal length by name, and the ids of the rows where there are any.

    Text columns hold strings, empty where a value is missing; missing numbers are NaN.
    """

    source: str
    columns: Mapping[str, NDArray[Any]]
    ids: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(next(iter(self.columns.values())))

    def column(self, name: str) -> NDArray[Any]:
        """Return one column.

        Raises:
            InputError: there is none of this name.
        """
        if name not in self.columns:
            raise InputError(
                f"{self.source}: has no column {name!r}; its columns are {', '.join(self.columns)}"
            )
        return self.columns[name]


def read_columns(
    path: str | Path,
    *,
    id_column: str | None = None,
    only: Sequence[str] | None = None,
) -> ColumnTable:
    """Read a table of columns.

    Args:
        path: a CSV, TSV, Parquet or npz file. Of an npz file, arrays of one dimension are
            columns and arrays of two dimensions several (``name.0``, ``name.1``, …, or as the
            array ``<name>_names`` calls them).
        id_column: the column of ids; by default one that is called ``id``, ``ids`` or
            ``sample_id``, or an index that does not merely count the rows.
        only: the columns wanted; by default all.

    Raises:
        InputError: no such file or column, an unknown layout, columns of unequal length, more of
            them than can be meant, or a file that expands to more than it may.
        MissingExtraError: Parquet without pyarrow.
    """
    source = Path(path)
    check_regular(source)
    suffix = source.suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(f"{source}: cannot be read; expected one of {', '.join(SUFFIXES)}")
    if suffix == ".npz":
        columns, notes = _read_npz(source)
    elif suffix == ".parquet":
        columns, notes = _read_parquet(source)
    else:
        columns, notes = _read_text(source, id_column)
    return _checked_table(str(source), columns, id_column=id_column, only=only, notes=notes)


def has_ids(columns: Mapping[str, Any]) -> bool:
    """Tell whether a column is called as one of ids is."""
    return any(name.lower() in ID_NAMES for name in columns)


def table_of(
    columns: Mapping[str, Any], *, ids: Sequence[str] | None = None, name: str = "columns"
) -> ColumnTable:
    """Return columns in memory as a table.

    Raises:
        InputError: columns that are empty, of several dimensions or of unequal length.
    """
    arrays = {title: _plain(np.asarray(values)) for title, values in columns.items()}
    table = _checked_table(name, arrays, id_column="" if ids is not None else None, only=None)
    if ids is None:
        return table
    if len(ids) != table.n_rows:
        raise InputError(
            f"{name}: {counted(len(ids), 'id')} for {counted(table.n_rows, 'row')}; "
            "give one id per row"
        )
    return ColumnTable(name, table.columns, tuple(map(str, ids)))


def has_missing(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Tell for every value of a column whether it is missing."""
    if values.dtype.kind == "f":
        return np.isnan(values)
    if values.dtype.kind == "U":
        return values == ""
    return np.zeros(len(values), dtype=np.bool_)


def _checked_table(
    source: str,
    columns: dict[str, NDArray[Any]],
    *,
    id_column: str | None,
    only: Sequence[str] | None,
    notes: tuple[str, ...] = (),
) -> ColumnTable:
    for name, values in columns.items():
        if values.ndim != 1:
            raise InputError(f"{source}: {name} has shape {values.shape}; expected one dimension")
    lengths = {name: len(values) for name, values in columns.items()}
    if len({*lengths.values()}) > 1:
        shown = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise InputError(f"{source}: columns of unequal length ({shown}); expected one value a row")
    table = ColumnTable(source, columns, None, notes)
    if id_column is None:
        id_column = next((name for name in columns if name.lower() in ID_NAMES), "")
    ids = tuple(map(str, table.column(id_column).tolist())) if id_column else None
    wanted = [name for name in columns if name != id_column] if only is None else list(only)
    kept = {name: table.column(name) for name in wanted}
    if not kept or table.n_rows == 0:
        raise InputError(f"{source}: holds no column of values; expected at least one")
    if ids is not None:
        if "" in ids:
            raise InputError(f"{source}: row {ids.index('')} has no id; give every row one")
        most_common, count = Counter(ids).most_common(1)[0]
        if count > 1:
            raise InputError(
                f"{source}: the id {most_common!r} stands in {count} rows; expected it once"
            )
    return ColumnTable(source, kept, ids, notes)


def _read_text(
    source: Path, id_column: str | None
) -> tuple[dict[str, NDArray[Any]], tuple[str, ...]]:
    """Read a table of text; its first column may be an index, as pandas and R write it."""
    table = open_delimited(source, has_header=True)
    text = "".join(table.blocks())
    if not text:
        raise InputError(f"{source}: holds no row below its header; expected at least one")
    identifiers = [name for name in table.names if name == id_column or name.lower() in ID_NAMES]
    index = [name for name in table.names[:1] if name in INDEX_NAMES]
    others = [name for name in table.names if name not in (*identifiers, *index)]
    columns = _plain_columns(table.parse(text, others))
    # an id may be called NA, and 001 is not 1
    ids = _plain_columns(table.parse(text, [*identifiers, *index], dtype=str, na_filter=False))
    return _with_index({**ids, **columns}), (
        (f"{source}: has {table.layout['delimiter']} between cells and decimal commas",)
        if table.decimal == ","
        else ()
    )


def _read_parquet(source: Path) -> tuple[dict[str, NDArray[Any]], tuple[str, ...]]:
    """Read the columns of single values, after checking what they become; lists are not columns."""
    with ParquetTable(source) as table:
        from pyarrow import types

        _check_width(table.n_leaves, source)
        names = table.schema.names
        table.check_size(names)
        for group in range(len(table.group_rows)):
            columns = table.group(group).columns
            with reading_arrow(source):
                longest = max((text_lengths(column)[1] for column in columns), default=0)
            check_copy(source, LETTER_BYTES * table.n_rows * longest, label=str(source))
        names = [field.name for field in table.schema if not types.is_nested(field.type)]
        columns = table.columns(names)
    return _with_index({name: _plain(values) for name, values in columns.items()}), ()


def _plain_columns(frame: "pd.DataFrame") -> dict[str, NDArray[Any]]:
    return {str(name): _plain(frame[name].to_numpy()) for name in frame.columns}


def _with_index(columns: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return columns of which an index, if there is one, gives the ids, unless it counts rows."""
    name = next((name for name in INDEX_NAMES if name in columns), None)
    if name is None:
        return columns
    index = [str(value) for value in columns.pop(name).tolist()]
    counts = ([str(row + first) for row in range(len(index))] for first in (0, 1))
    if has_ids(columns) or index in counts:
        return columns
    return {ID_NAMES[0]: np.array(index), **columns}


def _check_width(n_columns: int, source: Path) -> None:
    if n_columns > MAX_COLUMNS:
        raise InputError(f"{source}: has {n_columns} columns; at most {MAX_COLUMNS} are read")


def _read_npz(source: Path) -> tuple[dict[str, NDArray[Any]], tuple[str, ...]]:
    columns: dict[str, NDArray[Any]] = {}
    notes = []
    n_bytes = 0
    with NpzArchive(source) as archive:
        for name in archive.names:
            if name.endswith("_names") and name.removesuffix("_names") in archive.names:
                continue
            shape, _, dtype = archive.header(name)
            if dtype.hasobject or len(shape) not in (1, 2):
                notes.append(
                    f"{source}: the array {name} of shape {shape} is not a column; it was left out"
                )
                continue
            n_bytes += math.prod(shape) * dtype.itemsize
            check_copy(source, n_bytes, label=str(source))
            _check_width(shape[1] if len(shape) == 2 else 1, source)
            values = archive.read(name)
            if values.ndim == 1:
                columns[name] = _plain(values)
                continue
            titles = [f"{name}.{j}" for j in range(values.shape[1])]
            if f"{name}_names" in archive.names:
                names = archive.read(f"{name}_names")
                titles = [str(title) for title in names.reshape(-1).tolist()]
            if len(titles) != values.shape[1]:
                raise InputError(
                    f"{source}: {len(titles)} names for {values.shape[1]} columns of {name}"
                )
            columns.update(zip(titles, values.T, strict=True))
    return columns, tuple(notes)


def _plain(values: NDArray[Any]) -> NDArray[Any]:
    """Return numbers as they are and everything else as text, empty where missing."""
    if values.dtype.kind in "iufbU":
        return values
    return np.array(["" if _is_nothing(value) else str(value) for value in values.tolist()])


def _is_nothing(value: Any) -> bool:
    return value is None or value != value
