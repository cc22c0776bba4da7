"""Records as CSV, and anything as JSON."""

import csv
import hashlib
import io
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from repalign.printable import for_csv, printable
from repalign.tables.table import Record, column_names, plain_value


def as_csv(records: Sequence[Record]) -> str:
    """Return records as CSV in full precision; an undefined value is an empty cell."""
    buffer = io.StringIO()
    names = column_names(records)
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([for_csv(name) for name in names])
    for record in records:
        writer.writerow([_csv_cell(record.get(name)) for name in names])
    return buffer.getvalue()


def as_json(value: Any) -> str:
    """Return a value as JSON that every parser reads: NaN and infinity become null.

    Letters that act on a terminal are written as numbers, which stand for the same text.
    """
    text = json.dumps(finite(value), indent=2, ensure_ascii=False, allow_nan=False)
    if text.isascii() and text.replace("\n", "").isprintable():
        return text
    return _NOT_ASCII.sub(lambda match: _json_letter(match.group()), text)


DIGEST = "sha256"


def sealed(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document with the digest of its content, by which a change of it is noticed."""
    return {**document, DIGEST: digest_of(document)}


def digest_of(document: Mapping[str, Any]) -> str:
    """Return the sha256 of a document as JSON has it, whatever the order of its keys.

    The digest itself, where there is one, does not count.
    """
    content = {name: value for name, value in document.items() if name != DIGEST}
    text = json.dumps(finite(content), sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def finite(value: Any) -> Any:
    """Return a value with None where JSON has no number: for NaN and infinity."""
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    if isinstance(value, Mapping):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    if hasattr(value, "item") and not hasattr(value, "__len__"):
        return finite(value.item())
    return value


# Everything but the letters and the line breaks of ASCII, which json.dumps has dealt with.
_NOT_ASCII = re.compile(r"[^\n\x20-\x7e]")


def _csv_cell(value: Any) -> Any:
    value = plain_value(value)
    if isinstance(value, int | float):
        return value
    return for_csv(str(value))


def _json_letter(letter: str) -> str:
    return letter if printable(letter) == letter else json.dumps(letter)[1:-1]
