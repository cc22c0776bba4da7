"""A comparison done again from its record: what has changed since, and what came out."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from repalign.exceptions import InputError
from repalign.files import file_sha256
from repalign.results.files import Results, read_results
from repalign.store.source import EmbeddingSource
from repalign.tables.table import pair_of

Record = Mapping[str, Any]

COMMAND = "compare"
_KEY = ("source", "source_view", "target", "target_view", "map", "measure", "split")


def read_recorded(path: Path) -> Results:
    """Read the record of a comparison that can be done again.

    Raises:
        InputError: It cannot be read, or holds no command: a CSV, a demo, a call from Python.
    """
    results = read_results(path)
    if results.request.command[:1] != (COMMAND,):
        raise InputError(
            f"{path}: does not say which command made it; expected the .json that "
            "`repalign compare -o results.json` writes"
        )
    return results


def changed_inputs(results: Results, sources: Iterable[EmbeddingSource]) -> Iterator[str]:
    """Yield which files and embeddings are not what they were; this may read them."""
    for path, sha256 in results.request.files.items():
        if file_sha256(path) != sha256:
            yield f"{path}: the content has changed"
    details = [pair.details for pair in results.pairs if pair.details is not None]
    sides = [side for report in details for side in (report.source, report.target)]
    before = {(side["name"], side["view"]): side["fingerprint"] for side in sides}
    now = {(source.name, source.view): source for source in sources}
    for (name, view), source in now.items():
        if (name, view) not in before:
            yield f"{name}::{view}: was not compared then"
        elif before[name, view] != source.fingerprint:
            prints = before[name, view][:12], source.fingerprint[:12]
            yield f"{name}::{view}: the content has changed: {prints[0]} then, now {prints[1]}"
    for name, view in before.keys() - now.keys():
        yield f"{name}::{view}: was compared then and is not now"


def changed_versions(results: Results) -> Iterator[str]:
    """Yield which libraries have another version than then."""
    for name, before in results.versions.items():
        try:
            now = version(name)
        except (PackageNotFoundError, ValueError):
            now = "not installed"
        if now != before:
            yield f"{name}: {before} then, now {now}"


def changed_numbers(
    results: Results, records: Sequence[Record], tolerance: float = 0.0
) -> Iterator[str]:
    """Yield what came out otherwise, a line for each record, with the column that differs most."""
    now = {_key(record): record for record in records}
    before = {_key(record): record for record in results.everything}
    for key, record in before.items():
        if key not in now:
            yield f"{_name(record)}: is not there any more"
            continue
        distances = {
            column: _distance(value, now[key].get(column)) for column, value in record.items()
        }
        differing = [column for column, distance in distances.items() if distance > tolerance]
        if differing:
            column = max(differing, key=lambda name: (distances[name], name))
            more = "" if len(differing) == 1 else f", and {len(differing) - 1} more columns"
            yield f"{_name(record)}: {column} was {record[column]}, is {now[key].get(column)}{more}"
    for key in now.keys() - before.keys():
        yield f"{_name(now[key])}: is new"


def _key(record: Record) -> tuple[Any, ...]:
    # one of map and measure is empty, or is not there
    return tuple(record.get(name) or "" for name in _KEY)


def _name(record: Record) -> str:
    kind = record.get("map") or record["measure"]
    return f"{' → '.join(pair_of(record))}: {record['split']} {kind}"


def _distance(first: Any, second: Any) -> float:
    """Return how far two numbers are apart; anything else that differs is infinitely far."""
    if first == second:
        return 0.0
    if not all(type(value) in (int, float) for value in (first, second)):
        return float("inf")
    return abs(float(first) - float(second))
