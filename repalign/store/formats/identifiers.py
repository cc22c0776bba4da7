"""Who the rows of foreign embeddings are: files of ids next to them, columns of their tables."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from repalign.delimited import open_delimited
from repalign.exceptions import InputError
from repalign.expansion import TEXT_BYTES, check_identities
from repalign.files import check_regular, open_regular
from repalign.printable import listing
from repalign.store.formats.contents import ID_NAMES
from repalign.store.index import SHA_BYTES

# First line of a file of ids that an export wrote; behind it the fingerprint of the values.
BINDING = "# ids of the values "
FILE_NAMES = "file_names.txt"  # of thingsvision, one image per line in the order of the rows
TABLES = (".csv", ".tsv")


def read_ids(locator: str) -> list[str]:
    """Read ids from ``ids.txt`` (one per line) or from a column ``table.csv::column``.

    Without a column, a table must have one column or one that is named ``id``, ``ids`` or
    ``sample_id``.

    Raises:
        InputError: no such file or column, or a line without an id.
    """
    path_text, _, column = locator.partition("::")
    path = Path(path_text)
    check_regular(path)
    check_identities(path.stat().st_size, label=str(path))
    if path.suffix.lower() in TABLES:
        return _read_column(path, column or None)
    if column:
        raise InputError(f"{path}: is read as lines of ids and has no column {column!r}")
    return read_id_lines(path)


def bound_ids_text(ids: Sequence[str], fingerprint: str) -> str:
    """Return the text of a file of ids that says to which values they belong."""
    return "".join(f"{line}\n" for line in (f"{BINDING}{fingerprint}", *ids))


def read_id_lines(path: Path) -> list[str]:
    """Read one id per line of UTF-8 text.

    Raises:
        InputError: a line is empty, or the file is not UTF-8.
    """
    return read_bound_ids(path)[0]


def read_bound_ids(path: Path) -> tuple[list[str], str | None]:
    """Read one id per line, and the fingerprint of the values to which they belong, or None.

    Raises:
        InputError: a line is empty, or the file is not UTF-8.
    """
    with open_regular(path) as file:
        check_identities(os.fstat(file.fileno()).st_size, label=str(path))
        content = file.read()
    try:
        lines = content.decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8 text; expected one id per line") from error
    if b"\0" in content:
        raise InputError(f"{path}: holds NUL bytes and is not text; expected one id per line")
    if lines and not lines[-1]:
        lines.pop()
    ids = [line.removesuffix("\r") for line in lines]
    if "" in ids:
        raise InputError(f"{path}: line {ids.index('') + 1} is empty; expected one id per line")
    if ids and re.fullmatch(rf"{BINDING}[0-9a-f]{{64}}", ids[0]):
        return ids[1:], ids[0].removeprefix(BINDING)
    return ids, None


def _read_column(path: Path, column: str | None) -> list[str]:
    """Read the ids of a table from a column, or from the only one that can be meant."""
    table = open_delimited(path, has_header=True)
    if column is None:
        named = [name for name in table.names if name.lower() in ID_NAMES]
        candidates = named if len(named) == 1 else table.names
        if len(candidates) > 1:
            raise InputError(
                f"{path}: has the columns {listing(table.names)}; choose one: "
                f"{path}::{table.names[0]}"
            )
        column = candidates[0]
    place = table.place(column)
    ids = [record[place] for record in table.records()]
    if "" in ids:
        raise InputError(f"{path}: row {ids.index('')} of column {column!r} is empty; give an id")
    return ids


class RowIdentities:
    """Collects ids, token positions and hashes of a table that is read in blocks.

    Args:
        id_name: the column of ids, or None.
        label: name of the table, for messages.
    """

    NAMES: ClassVar[tuple[str, ...]] = ("token", "sample_sha")

    def __init__(self, *, id_name: str | None, label: str) -> None:
        self._id_name = id_name
        self._label = label
        self._columns: dict[str, list[str]] = {}
        self._n_bytes = 0

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns that identify a row, in a table that has them."""
        return self.NAMES if self._id_name is None else (self._id_name, *self.NAMES)

    def add(self, columns: Mapping[str, Sequence[Any]]) -> None:
        """Add the next rows: lists of text or integers by the name of the column."""
        for name, values in columns.items():
            texts = self._columns.setdefault(name, [])
            for value in values:
                if isinstance(value, bool) or not isinstance(value, str | int):
                    raise InputError(
                        f"{self._label}: row {len(texts)} has {value!r} in column {name!r}; "
                        "expected text or an integer"
                    )
                texts.append(str(value))
            self._n_bytes += sum(TEXT_BYTES + len(text) for text in texts[-len(values) :])
            check_identities(self._n_bytes, label=self._label)

    def ids(self) -> list[str] | None:
        """Return one id per row, or None."""
        if self._id_name is None:
            return None
        ids = self._columns.get(self._id_name, [])
        if "" in ids:
            raise InputError(
                f"{self._label}: row {ids.index('')} has no id; give every row one, or none"
            )
        return ids

    def token(self) -> NDArray[np.int32] | None:
        """Return the token position of each row, or None."""
        if "token" not in self._columns:
            return None
        try:
            return np.array([int(text) for text in self._columns["token"]], dtype=np.int32)
        except (ValueError, OverflowError) as error:
            raise InputError(
                f"{self._label}: the column 'token' holds {error}; expected token positions, "
                "-1 for a pooled row"
            ) from error

    def sample_sha(self) -> NDArray[np.uint8] | None:
        """Return the hash of each row's input, or None."""
        if "sample_sha" not in self._columns:
            return None
        texts = self._columns["sample_sha"]
        try:
            values = [bytes.fromhex(text) for text in texts]
        except ValueError as error:
            raise InputError(
                f"{self._label}: the column 'sample_sha' holds no hexadecimal hash ({error})"
            ) from error
        wrong = next((row for row, value in enumerate(values) if len(value) != SHA_BYTES), None)
        if wrong is not None:
            raise InputError(
                f"{self._label}: row {wrong} has a 'sample_sha' of {len(values[wrong])} bytes; "
                f"expected {SHA_BYTES}"
            )
        return np.frombuffer(b"".join(values), dtype=np.uint8).reshape(-1, SHA_BYTES)
