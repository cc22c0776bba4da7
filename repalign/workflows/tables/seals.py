"""Digests by which a change of a result is noticed: one of a JSON, one of every row of a CSV.

A row has its own, so that rows may be chosen, sorted and put together with those of other results.
It has four parts: the digest of the row; that of the row with its numbers to six digits, since
spreadsheets, and pandas as it reads by default, change the last ones; that of all rows that were
written together; and how many these were.
"""

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from repalign.exceptions import InputError
from repalign.printable import printable
from repalign.workflows.tables.layout import Record
from repalign.workflows.tables.records_text import finite

DIGEST = "sha256"
ROW_DIGEST = "digest"
NO_DIGEST = "carries no digest: nobody can tell whether it was changed"
DIGITS = 6
_PART = "([0-9a-f]{12})"
_SEAL = re.compile(rf"{_PART}-{_PART}-{_PART}-([0-9]{{1,9}})")
# Whole numbers up to the first are the same as floats; those beyond the second are damage.
_EXACT = 2**53
_LARGEST = 2**64


class _Seal(NamedTuple):
    exact: str
    rounded: str
    together: str
    number: str


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


def sealed_records(records: Sequence[Record]) -> list[Record]:
    """Return records with a last column, the digest of each."""
    exact = [_short(record) for record in records]
    together = _together(exact)
    return [
        {**record, ROW_DIGEST: "-".join(_Seal(digest, _short(record, DIGITS), *together))}
        for record, digest in zip(records, exact, strict=True)
    ]


def unsealed_records(
    records: Sequence[dict[str, Any]], known: Collection[str]
) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """Return records without their digests, and what is to be said of them.

    Args:
        records: The rows of a CSV, their cells as numbers, truths and texts.
        known: Columns that results have. Others may have been added to them, and are left out.

    Raises:
        InputError: One is not what was written.
    """
    if not any(ROW_DIGEST in record for record in records):
        return list(records), (NO_DIGEST,)
    found, seals, n_rounded = list[dict[str, Any]](), list[_Seal](), 0
    for number, record in enumerate(records, start=1):
        content = {name: value for name, value in record.items() if name != ROW_DIGEST}
        told = record.get(ROW_DIGEST)
        if told is not None:
            seal, content, is_exact = _checked(content, str(told), known, number)
            seals.append(seal)
            n_rounded += not is_exact
        found.append(content)
    return found, tuple(_notes(seals, len(records), n_rounded))


def _checked(
    record: dict[str, Any], told: str, known: Collection[str], number: int
) -> tuple[_Seal, dict[str, Any], bool]:
    """Return the digest of a row, what of the row it is of, and whether to the last digit."""
    if match := _SEAL.fullmatch(told):
        seal = _Seal(*match.groups())
        of_results = {name: value for name, value in record.items() if name in known}
        for expected, digits in ((seal.exact, None), (seal.rounded, DIGITS)):
            for content in (record, of_results):
                if _short(content, digits) == expected:
                    return seal, content, digits is None
    raise InputError(
        f"row {number} was changed after it was written; make it again, or, if the change is "
        f"meant, remove the column {ROW_DIGEST!r}"
    )


def _notes(seals: Sequence[_Seal], n_rows: int, n_rounded: int) -> Iterator[str]:
    if len(seals) < n_rows:
        yield (
            f"{n_rows - len(seals)} of {n_rows} rows carry no digest: nobody can tell whether "
            "they were changed"
        )
    if n_rounded:
        yield (
            f"{n_rounded} of {n_rows} rows were rounded after they were written: their numbers "
            f"are the same to {DIGITS} digits"
        )
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for seal in seals:
        groups[seal.together, seal.number].append(seal.exact)
    partial = {key: rows for key, rows in groups.items() if _together(rows) != key}
    if partial:
        there, all_rows = sum(map(len, partial.values())), sum(int(number) for _, number in partial)
        yield f"holds {there} of {all_rows} rows that were written together"


def _together(digests: Iterable[str]) -> tuple[str, str]:
    """Return the digest of rows in any order, and how many they are."""
    found = sorted(digests)
    return _cut("".join(found)), str(len(found))


def _short(record: Record, digits: int | None = None) -> str:
    """Return the digest of what is known in a row, whatever the order of its columns."""
    told = {name: _plain(value, digits) for name, value in record.items() if value is not None}
    known = {name: value for name, value in told.items() if value not in (None, "")}
    return _cut(json.dumps(known, sort_keys=True, allow_nan=False))


def _plain(value: Any, digits: int | None) -> Any:
    """Return a value by which equal ones are known: 2 and 2.0, and text as a CSV has it."""
    if isinstance(value, str):
        return printable(value)
    number = finite(value)
    if number is None or isinstance(number, bool):
        return number
    if not isinstance(number, int | float):
        return printable(str(value))
    if digits and abs(number) < _LARGEST:
        number = float(f"{number:.{digits}g}")
    return int(number) if number == number // 1 and abs(number) < _EXACT else number


def _cut(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
