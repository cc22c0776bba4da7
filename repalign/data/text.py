"""Text from files: lines, paragraphs or whole files of .txt, records of .jsonl."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from repalign.data.read_options import Unit
from repalign.data.samples import Sample, checked_label, text_sample
from repalign.exceptions import InputError, reading
from repalign.files import file_sha256, open_regular
from repalign.printable import byte_size

MAX_UNIT_BYTES = 64 * 2**20


class TextFile:
    """Lines, paragraphs or the whole of one UTF-8 file; blank ones are left out.

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

    Raises InputError for lines that are not an object or lack the field.
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
            raise InputError(f"{where} is not JSON; expected one object per line") from error
        if not isinstance(record, dict):
            raise InputError(f"{where} holds a {type(record).__name__}, expected an object")
        text = _field(record, self._column, where, "--column")
        if not isinstance(text, str):
            raise InputError(f"{self._column!r} in {where} is not text; choose another --column")
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
