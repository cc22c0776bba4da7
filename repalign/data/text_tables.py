"""Text from the columns of .csv and .parquet files."""

import threading
from pathlib import Path
from typing import Any

import numpy as np

from repalign.data.samples import Sample, checked_label, text_sample
from repalign.delimited import open_delimited
from repalign.exceptions import InputError, reading
from repalign.expansion import check_copy
from repalign.files import file_sha256
from repalign.parquet import ParquetTable, reading_arrow, text_lengths


class CsvColumn:
    """One column of a .csv file with a header; texts are held in memory.

    Ids come from a column or are row numbers, counted from 1. Rows without text are left out.

    Raises InputError for a missing column, or a row with more or fewer cells than the header.
    """

    def __init__(self, path: Path, column: str | None, id_column: str | None) -> None:
        self._path = path
        self._column = column or "text"
        self._id_column = id_column
        # rows with names would be rows whose first text was cut in two
        table = open_delimited(path, has_header=True, row_names=False)
        check_columns(table.names, self._column, id_column, path.name)
        self._layout = table.layout if table.delimiter != "," else {}
        text = table.place(self._column)
        label = None if id_column is None else table.place(id_column)
        self._rows: list[tuple[str, str]] = []
        for number, cells in enumerate(table.records(), start=1):
            if not cells[text].strip():
                continue
            name = str(number)
            if label is not None and id_column is not None:
                name = checked_label(cells[label], id_column, f"row {number} of {path.name}")
            self._rows.append((name, cells[text]))

    @property
    def description(self) -> dict[str, object]:
        """What the data are, as plain values."""
        described = describe_table("csv", self._path, self._column, self._id_column)
        return {**described, **self._layout}

    def __len__(self) -> int:
        return len(self._rows)

    def read(self, index: int) -> Sample:
        """Return one sample."""
        return text_sample(*self._rows[index], where=self._path.name)


class ParquetColumn:
    """One column of a .parquet file; one row group is held in memory at a time.

    Ids come from a column or are row numbers, counted from 1.

    Raises InputError for a missing column, MissingExtraError without pyarrow.
    """

    def __init__(self, path: Path, column: str | None, id_column: str | None) -> None:
        self._path = path
        self._column = column or "text"
        self._id_column = id_column
        self._columns = [name for name in (self._column, id_column) if name is not None]
        self._table = ParquetTable(path, path.name)
        check_columns(self._table.schema.names, self._column, id_column, path.name)
        self._table.check_size(self._columns)
        self._starts = np.cumsum([0, *self._table.group_rows])
        self._lock = threading.Lock()
        self._held: tuple[int, list[Any], list[Any] | None] = (-1, [], None)

    @property
    def description(self) -> dict[str, object]:
        """What the data are, as plain values."""
        return describe_table("parquet", self._path, self._column, self._id_column)

    def __len__(self) -> int:
        return int(self._starts[-1])

    def read(self, index: int) -> Sample:
        """Return one sample."""
        group = int(np.searchsorted(self._starts, index, side="right")) - 1
        with reading(self._path):
            texts, labels = self._group(group)
        place = index - int(self._starts[group])
        text = texts[place]
        where = f"row {index + 1} of {self._path.name}"
        if not isinstance(text, str):
            raise InputError(
                f"{where} has no text in {self._column!r}; choose another --column or drop the row"
            )
        label = str(index + 1)
        if labels is not None and self._id_column is not None:
            label = checked_label(labels[place], self._id_column, where)
        return text_sample(label, text, where)

    def _group(self, group: int) -> tuple[list[Any], list[Any] | None]:
        with self._lock:
            if self._held[0] != group:
                table = self._table.group(group, self._columns)
                with reading_arrow(self._path.name):
                    n_bytes = sum(text_lengths(column)[0] for column in table.columns)
                check_copy(self._path, n_bytes, label=self._path.name)
                with reading_arrow(self._path.name):
                    values = {name: table[name].to_pylist() for name in self._columns}
                labels = None if self._id_column is None else values[self._id_column]
                self._held = (group, values[self._column], labels)
            return self._held[1], self._held[2]


def check_columns(names: Any, column: str, id_column: str | None, file: str) -> None:
    """Refuse a table that lacks a wanted column.

    Raises InputError naming the columns that it has.
    """
    for name, option in ((column, "--column"), (id_column, "--id-column")):
        if name is not None and name not in names:
            raise InputError(
                f"no column {name!r} in {file}; found {', '.join(names) or 'none'}: "
                f"choose one with {option}"
            )
        if list(names).count(name) > 1:
            raise InputError(f"{file} has two columns {name!r}; rename one")


def describe_table(form: str, path: Path, column: str, id_column: str | None) -> dict[str, object]:
    """Describe a table by its content and the columns that are read."""
    return {
        "format": form,
        "name": path.name,
        "sha256": file_sha256(path),
        "column": column,
        "id_column": id_column,
    }
