"""Ids of rows from a file beside the embeddings: lines of text, or a column of a table."""

import os
import re
from collections.abc import Sequence
from pathlib import Path

from repalign.delimited import open_delimited
from repalign.exceptions import InputError
from repalign.expansion import check_identities
from repalign.files import check_regular, open_regular
from repalign.store.foreign.contents import ID_NAMES

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
        raise InputError(f"{path}: holds NUL bytes and is no text; expected one id per line")
    if lines and not lines[-1]:
        lines.pop()
    ids = [line.removesuffix("\r") for line in lines]
    if "" in ids:
        raise InputError(f"{path}: line {ids.index('') + 1} is empty; expected one id per line")
    if ids and re.fullmatch(rf"{BINDING}[0-9a-f]{{64}}", ids[0]):
        return ids[1:], ids[0].removeprefix(BINDING)
    return ids, None


def _read_column(path: Path, column: str | None) -> list[str]:
    table = open_delimited(path, has_header=True)
    name = column or _only_column(path, table.names)
    place = table.place(name)
    ids = [record[place] for record in table.records()]
    if "" in ids:
        raise InputError(f"{path}: row {ids.index('')} of column {name!r} is empty; give an id")
    return ids


def _only_column(path: Path, names: Sequence[str]) -> str:
    named = [name for name in names if name.lower() in ID_NAMES]
    found = named if len(named) == 1 else names
    if len(found) == 1:
        return found[0]
    raise InputError(f"{path}: has the columns {_some(names)}; choose one: {path}::{names[0]}")


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
