"""A comparison done again from its record: what it was, what has changed since, what came out."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from repalign.exceptions import InputError
from repalign.files import file_sha256
from repalign.store.sources.source import EmbeddingSource
from repalign.workflows.report.input import Results, read_results
from repalign.workflows.report.typed import typed
from repalign.workflows.tables.quantities import pair_of

Record = Mapping[str, Any]

COMMAND = "compare"
SIDES = ("source", "target")
_KEY = ("source", "source_view", "target", "target_view", "map", "measure", "split")


@dataclass(frozen=True)
class Recorded:
    """What a result says of the command that made it.

    Attributes:
        words: The command, presets resolved.
        files: Files beside the embeddings (ids, groups), with their sha256.
        inputs: Fingerprints of the embeddings, by name and view.
        results: Everything that came out.
    """

    words: tuple[str, ...]
    files: Mapping[str, str]
    inputs: Mapping[tuple[str, str], str]
    results: Results


def read_recorded(path: Path) -> Recorded:
    """Read the record of a comparison that can be done again.

    Raises:
        InputError: It cannot be read, or holds no command: a CSV, a demo, a call from Python.
    """
    results = read_results(path)
    words = typed(results.request.get("command", []), tuple[str, ...], f"{path}: command")
    if not words or words[0] != COMMAND:
        raise InputError(
            f"{path}: does not say which command made it; expected the .json that "
            "`repalign compare -o results.json` writes"
        )
    inputs = {}
    for pair in results.pairs:
        for side in SIDES:
            told = typed((pair.details or {}).get(side, {}), Mapping[str, Any], f"{path}: {side}")
            name, view, fingerprint = (
                typed(told.get(key, ""), str, f"{path}: {side}: {key}")
                for key in ("name", "view", "fingerprint")
            )
            inputs[name, view] = fingerprint
    files = typed(results.request.get("files", {}), Mapping[str, str], f"{path}: files")
    return Recorded(words, files, inputs, results)


def changed_files(recorded: Recorded) -> Iterator[str]:
    """Yield which files beside the embeddings are not what they were."""
    for path, sha256 in recorded.files.items():
        if file_sha256(path) != sha256:
            yield f"{path}: the content has changed"


def changed_inputs(recorded: Recorded, sources: Iterable[EmbeddingSource]) -> Iterator[str]:
    """Yield which embeddings are not what they were; this may read them."""
    found = {(source.name, source.view): source for source in sources}
    for (name, view), source in found.items():
        was = recorded.inputs.get((name, view))
        if was is None:
            yield f"{name}::{view}: was not compared then"
        elif was != source.fingerprint:
            yield (
                f"{name}::{view}: the content has changed: {was[:12]} then, now "
                + (source.fingerprint[:12])
            )
    for name, view in recorded.inputs.keys() - found.keys():
        yield f"{name}::{view}: was compared then and is not now"


def changed_versions(recorded: Recorded) -> Iterator[str]:
    """Yield which libraries have another version than then."""
    for name, was in recorded.results.versions.items():
        now = _version(name)
        if now != was:
            yield f"{name}: {was} then, now {now}"


def _version(name: str) -> str:
    try:
        return version(name)
    except (PackageNotFoundError, ValueError):
        return "not installed"


def changed_numbers(
    recorded: Recorded, records: Sequence[Record], tolerance: float = 0.0
) -> Iterator[str]:
    """Yield what came out otherwise, a line for each record, with the column that differs most."""
    now = {_key(record): record for record in records}
    then = {_key(record): record for record in recorded.results.everything}
    for key, was in then.items():
        if key not in now:
            yield f"{_name(was)}: is not there any more"
            continue
        differences = [
            (_distance(value, now[key].get(column)), column)
            for column, value in was.items()
            if not _same(value, now[key].get(column), tolerance)
        ]
        if differences:
            _, column = max(differences)
            more = "" if len(differences) == 1 else f", and {len(differences) - 1} more columns"
            yield f"{_name(was)}: {column} was {was[column]}, is {now[key].get(column)}{more}"
    for key in now.keys() - then.keys():
        yield f"{_name(now[key])}: is new"


def _key(record: Record) -> tuple[Any, ...]:
    # one of map and measure is empty, or is not there
    return tuple(record.get(name) or "" for name in _KEY)


def _name(record: Record) -> str:
    return (
        f"{' → '.join(pair_of(record))}: {record['split']} {record.get('map') or record['measure']}"
    )


def _same(first: Any, second: Any, tolerance: float) -> bool:
    return bool(first == second) or _distance(first, second) <= tolerance


def _distance(first: Any, second: Any) -> float:
    """Return how far two numbers are apart; anything else that differs is infinitely far."""
    numbers = [value for value in (first, second) if isinstance(value, int | float)]
    if len(numbers) < 2 or any(isinstance(value, bool) for value in numbers):
        return float("inf")
    return abs(float(first) - float(second))
