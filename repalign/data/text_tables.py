"""Text from the columns of .csv and .parquet files."""

import csv
import hashlib
import threading
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import numpy as np

from repalign.data.samples import Sample
from repalign.exceptions import InputError, MissingExtraError
from repalign.expansion import check_copy
from repalign.files import file_sha256, open_regular
from repalign.parquet import declared_bytes, open_parquet, text_lengths


class CsvColumn:
    """One column of a .csv file with a header; texts are held in memory.

    Ids come from a column or are row numbers, counted from 1.

    Raises InputError for a missing column or a file that is no CSV.
    """

    def __init__(self, path: Path, column: str | None, id_column: str | None) -> None:
        self._path = path
        self._column = column or "text"
        self._id_column = id_column
        self._rows: list[tuple[str, str]] = []
        try:
            with TextIOWrapper(open_regular(path), encoding="utf-8-sig", newline="") as file:
                self._read(csv.DictReader(file))
        except (csv.Error, UnicodeDecodeError) as error:
            raise InputError(f"{path.name} is no readable CSV in UTF-8: {error}") from error

    def _read(self, reader: "csv.DictReader[str]") -> None:
        check_columns(reader.fieldnames or [], self._column, self._id_column, self._path.name)
        for number, row in enumerate(reader, start=1):
            text = row[self._column]
            if not text or not text.strip():
                continue
            label = str(number) if self._id_column is None else row[self._id_column]
            self._rows.append((label, text))

    @property
    def description(self) -> dict[str, object]:
        """What the data are, as plain values."""
        return describe_table("csv", self._path, self._column, self._id_column)

    def __len__(self) -> int:
        return len(self._rows)

    def read(self, index: int) -> Sample:
        """Return one sample."""
        label, text = self._rows[index]
        return Sample(label, hashlib.sha256(text.encode()).digest(), text)


class ParquetColumn:
    """One column of a .parquet file; one row group is held in memory at a time.

    Ids come from a column or are row numbers, counted from 1.

    Raises InputError for a missing column, MissingExtraError without pyarrow.
    """

    def __init__(self, path: Path, column: str | None, id_column: str | None) -> None:
        try:
            from pyarrow import ArrowException
        except ImportError as error:
            raise MissingExtraError(
                "pyarrow", extra="parquet", purpose="reading .parquet"
            ) from error
        self._path = path
        self._column = column or "text"
        self._id_column = id_column
        self._columns = [name for name in (self._column, id_column) if name is not None]
        try:
            self._file = open_parquet(path, self._columns)
        except (ArrowException, OSError) as error:
            raise InputError(f"{path.name} is no readable Parquet file: {error}") from error
        names = self._file.schema_arrow.names
        check_columns(names, self._column, id_column, path.name)
        check_copy(path, declared_bytes(self._file, self._columns), label=path.name)
        metadata = self._file.metadata
        sizes = [metadata.row_group(k).num_rows for k in range(metadata.num_row_groups)]
        self._starts = np.cumsum([0, *sizes])
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
        texts, labels = self._group(group)
        place = index - int(self._starts[group])
        text = texts[place]
        if not isinstance(text, str):
            raise InputError(
                f"row {index + 1} of {self._path.name} has no text in {self._column!r}; "
                "choose another --column or drop the row"
            )
        label = str(index + 1) if labels is None else str(labels[place])
        return Sample(label, hashlib.sha256(text.encode()).digest(), text)

    def _group(self, group: int) -> tuple[list[Any], list[Any] | None]:
        with self._lock:
            if self._held[0] != group:
                table = self._file.read_row_group(group, columns=self._columns)
                n_bytes = sum(text_lengths(column)[0] for column in table.columns)
                check_copy(self._path, n_bytes, label=self._path.name)
                labels = None if self._id_column is None else table[self._id_column].to_pylist()
                self._held = (group, table[self._column].to_pylist(), labels)
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


def describe_table(form: str, path: Path, column: str, id_column: str | None) -> dict[str, object]:
    """Describe a table by its content and the columns that are read."""
    return {
        "format": form,
        "name": path.name,
        "sha256": file_sha256(path),
        "column": column,
        "id_column": id_column,
    }
