"""Text: lines, paragraphs or whole files, records of .jsonl, columns of tables."""

import hashlib
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from repalign.data.read_options import Unit
from repalign.data.samples import Sample, checked_label, text_sample
from repalign.delimited import open_delimited
from repalign.exceptions import InputError, MissingExtraError, reading
from repalign.expansion import check_copy
from repalign.files import file_sha256, open_regular
from repalign.parquet import declared_bytes, open_parquet, reading_arrow, text_lengths
from repalign.printable import byte_size

MAX_UNIT_BYTES = 64 * 2**20


class TextFile:
    """Lines, paragraphs or the whole of one UTF-8 file; blank ones are passed over.

    Only byte positions are held in memory. Ids are line numbers (of a paragraph its first
    line), counted from 1, and empty for a whole file.

    Raises InputError for a unit of more than 64 MiB and for text that is not UTF-8.
    """

    def __init__(self, path: Path, unit: Unit) -> None:
        self._path = path
        self._unit = unit
        spans = list(_spans(path, unit))
        self._spans: NDArray[np.int64] = np.array(spans, dtype=np.int64).reshape(-1, 3)

    @property
    def description(self) -> dict[str, object]:
        """What the data are, as plain values."""
        return {
            "format": f"text by {self._unit}",
            "name": self._path.name,
            "sha256": file_sha256(self._path),
        }

    def __len__(self) -> int:
        return len(self._spans)

    def read(self, index: int) -> Sample:
        """Return one sample."""
        start, stop, number = (int(value) for value in self._spans[index])
        label = "" if self._unit == "file" else str(number)
        with reading(self._path):
            raw = _read_span(self._path, start, stop)
            return Sample(label, hashlib.sha256(raw).digest(), _decode(raw, self._path, number))


class JsonLines:
    """One text per line of a .jsonl file, from one field; ids from a field or line numbers.

    Raises InputError for lines that are no object or lack the field.
    """

    def __init__(self, path: Path, column: str | None, id_column: str | None) -> None:
        self._path = path
        self._column = column or "text"
        self._id_column = id_column
        self._spans: NDArray[np.int64] = np.array(
            list(_spans(path, "line")), dtype=np.int64
        ).reshape(-1, 3)

    @property
    def description(self) -> dict[str, object]:
        """What the data are, as plain values."""
        return {
            "format": "jsonl",
            "name": self._path.name,
            "sha256": file_sha256(self._path),
            "column": self._column,
            "id_column": self._id_column,
        }

    def __len__(self) -> int:
        return len(self._spans)

    def read(self, index: int) -> Sample:
        """Return one sample."""
        with reading(self._path):
            return self._read(index)

    def _read(self, index: int) -> Sample:
        start, stop, number = (int(value) for value in self._spans[index])
        where = f"line {number} of {self._path.name}"
        try:
            record = json.loads(_read_span(self._path, start, stop))
        except (ValueError, RecursionError) as error:
            raise InputError(f"{where} is no JSON; expected one object per line") from error
        if not isinstance(record, dict):
            raise InputError(f"{where} holds a {type(record).__name__}, expected an object")
        text = _field(record, self._column, where, "--column")
        if not isinstance(text, str):
            raise InputError(f"{self._column!r} in {where} is no text; choose another --column")
        label = str(number)
        if self._id_column is not None:
            value = _field(record, self._id_column, where, "--id-column")
            label = checked_label(value, self._id_column, where)
        return text_sample(label, text, where)


def _field(record: dict[str, object], name: str, where: str, option: str) -> object:
    if name not in record:
        raise InputError(
            f"no field {name!r} in {where}; found {', '.join(sorted(record)) or 'none'}: "
            f"choose one with {option}"
        )
    return record[name]


def _spans(path: Path, unit: Unit) -> Iterator[tuple[int, int, int]]:
    """Start, stop and first line number of every unit that is not blank."""
    if unit == "line":
        yield from _filled_lines(path)
    elif unit == "paragraph":
        yield from _paragraphs(path)
    else:
        with open_regular(path) as file:
            raw = file.read(MAX_UNIT_BYTES + 1)
        _check_size(path, 1, len(raw))
        if raw.strip():
            yield 0, len(raw), 1


def _filled_lines(path: Path) -> Iterator[tuple[int, int, int]]:
    start = 0
    with open_regular(path) as file:
        for number, line in enumerate(_lines(file, path), start=1):
            text = line.rstrip(b"\r\n")
            if text.strip():
                yield start, start + len(text), number
            start += len(line)


def _paragraphs(path: Path) -> Iterator[tuple[int, int, int]]:
    """Runs of lines without a blank one between them."""
    opened = stop = first = last = 0
    for start, end, number in _filled_lines(path):
        if first and number > last + 1:
            yield opened, stop, first
            first = 0
        if not first:
            opened, first = start, number
        stop, last = end, number
        _check_size(path, first, stop - opened)
    if first:
        yield opened, stop, first


def _lines(file: IO[bytes], path: Path) -> Iterator[bytes]:
    number = 1
    while line := file.readline(MAX_UNIT_BYTES + 1):
        _check_size(path, number, len(line))
        yield line
        number += 1


def _check_size(path: Path, number: int, size: int) -> None:
    if size > MAX_UNIT_BYTES:
        raise InputError(
            f"the text at line {number} of {path.name} is longer than {byte_size(MAX_UNIT_BYTES)}; "
            "split it"
        )


def _read_span(path: Path, start: int, stop: int) -> bytes:
    with open_regular(path) as file:
        file.seek(start)
        return file.read(stop - start)


def _decode(raw: bytes, path: Path, number: int) -> str:
    try:
        return raw.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise InputError(
            f"the text at line {number} of {path.name} is not UTF-8 (byte {error.start}); "
            "convert the file"
        ) from error


class CsvColumn:
    """One column of a .csv file with a header; texts are held in memory.

    Ids come from a column or are row numbers, counted from 1. Rows without text are passed over.

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
        try:
            import pyarrow  # noqa: F401
        except ImportError as error:
            raise MissingExtraError(
                "pyarrow", extra="parquet", purpose="reading .parquet"
            ) from error
        self._path = path
        self._column = column or "text"
        self._id_column = id_column
        self._columns = [name for name in (self._column, id_column) if name is not None]
        with reading_arrow(path.name):
            self._file = open_parquet(path, self._columns)
            names = self._file.schema_arrow.names
        check_columns(names, self._column, id_column, path.name)
        with reading_arrow(path.name):
            n_bytes = declared_bytes(self._file, self._columns)
        check_copy(path, n_bytes, label=path.name)
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
                with reading_arrow(self._path.name):
                    table = self._file.read_row_group(group, columns=self._columns)
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
