"""Reading results back: the JSON or the CSV that ``compare`` and ``demo`` write.

What is read has the types of the dataclasses that were written; see ``typed``.
"""

import csv
import io
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from repalign.exceptions import InputError
from repalign.files import open_regular
from repalign.options import plain_type
from repalign.printable import from_csv, printable
from repalign.workflows.compare.results import PairReport
from repalign.workflows.report.records import MAP_RECORDS, MEASURE_RECORDS, Record, is_measured
from repalign.workflows.report.typed import typed
from repalign.workflows.tables.layout import side_name
from repalign.workflows.tables.seals import DIGEST, NO_DIGEST, digest_of, unsealed_records

LARGEST_FILE = 2**29
SIDES = ("source", "target")
_FORMAT = "repalign-compare"
_WHY_DAMAGED = "expected what `repalign compare -o results.json` writes"
# What the demo adds to a record.
_OF_DEMO = {"pair": str, "paper_pair": str, "paper_error": float, "paper_efficiency": float}
_TYPES = {**MEASURE_RECORDS.types, **MAP_RECORDS.types, **_OF_DEMO}


@dataclass(frozen=True)
class PairResults:
    """The records of one pair, and what else is known of it; None from a CSV.

    ``records`` are those of maps, ``measures`` those of measures of similarity.
    """

    records: tuple[Record, ...]
    details: Mapping[str, Any] | None
    measures: tuple[Record, ...] = ()

    @property
    def everything(self) -> tuple[Record, ...]:
        """Records of maps and of measures."""
        return (*self.records, *self.measures)

    @property
    def title(self) -> str:
        """Source and target, with their views."""
        return " → ".join(side_name(self.everything[0], side) for side in SIDES)


@dataclass(frozen=True)
class Results:
    """Everything that a file of results holds; ``notes`` say what is to be known of the file."""

    name: str
    pairs: tuple[PairResults, ...]
    settings: Mapping[str, Any]
    versions: Mapping[str, str]
    request: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def records(self) -> list[Record]:
        """The records of the maps of all pairs."""
        return [record for pair in self.pairs for record in pair.records]

    @property
    def measures(self) -> list[Record]:
        """The records of the measures of all pairs."""
        return [record for pair in self.pairs for record in pair.measures]

    @property
    def everything(self) -> list[Record]:
        """The records of all pairs, of maps and of measures."""
        return [*self.records, *self.measures]


def read_results(path: Path) -> Results:
    """Read results from .json (complete) or .csv (records alone).

    Raises:
        InputError: The file cannot be read, is damaged, or holds something else.
    """
    ending = path.suffix.lower()
    if ending not in (".csv", ".json"):
        raise InputError(f"{path}: got the ending '{path.suffix}', expected .json or .csv")
    with open_regular(path) as stream:
        content = stream.read(LARGEST_FILE + 1)
    if len(content) > LARGEST_FILE:
        raise InputError(f"{path}: holds more than {LARGEST_FILE >> 20} MiB, expected a result")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: cannot be read as UTF-8; give the .json or .csv of a result"
        ) from error
    return _from_csv(text, path) if ending == ".csv" else _from_json(text, path)


def _from_csv(text: str, path: Path) -> Results:
    try:
        rows = [row for row in csv.reader(io.StringIO(text, newline=""), strict=True) if row]
    except csv.Error as error:
        raise InputError(f"{path}: is no CSV ({error}); {_WHY_DAMAGED}") from error
    header = [_text(name) for name in rows[0]] if rows else []
    if len(set(header)) < len(header):
        raise InputError(f"{path}: names a column twice; {_WHY_DAMAGED}")
    wrong = next((row for row in rows if len(row) != len(header)), None)
    if wrong is not None:
        raise InputError(f"{path}: a line has more or fewer cells than the header; is it cut off?")
    records = [
        {
            name: _value(name, cell)
            for name, cell in zip(header, row, strict=True)
            if cell or name in _TYPES  # nobody's column without a word in it
        }
        for row in rows[1:]
        if row != rows[0]  # of files that were put one behind the other
    ]
    try:
        records, told = unsealed_records(records, _TYPES)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    # measures of similarity stand in the same table, without a map
    checked = MAP_RECORDS.checked((each for each in records if not is_measured(each)), path)
    measures = MEASURE_RECORDS.checked(filter(is_measured, records), path)
    notes = tuple(f"{path.name} {note}" for note in told)
    return Results(path.name, tuple(_pairs(checked, measures, path)), {}, {}, notes=notes)


def _from_json(text: str, path: Path) -> Results:
    try:
        content = json.loads(text, parse_constant=_refuse, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: is no JSON ({error})") from error
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise InputError(
            f"{path}: is no result of a comparison; expected what "
            "`repalign compare -o results.json` writes"
        )
    notes = _checked_digest(content, path)
    missing = {"records", "pairs", "settings", "versions"} - content.keys()
    if missing:
        raise InputError(f"{path}: lacks {min(missing)!r}; {_WHY_DAMAGED}")
    records = typed(content["records"], tuple[Mapping[str, Any], ...], f"{path}: records")
    details = typed(content["pairs"], tuple[PairReport, ...], f"{path}: pairs")
    for number, pair in enumerate(details, start=1):
        _check_details(pair, f"{path}: pair {number}")
    told = typed(content.get("measures", []), tuple[Mapping[str, Any], ...], f"{path}: measures")
    checked = MAP_RECORDS.checked(records, path)
    pairs = list(_pairs(checked, MEASURE_RECORDS.checked(told, path), path))
    if len(pairs) != len(details):
        raise InputError(
            f"{path}: holds records of {len(pairs)} pairs and details of {len(details)}; it was "
            "changed after it was written"
        )
    return Results(
        name=path.name,
        pairs=tuple(replace(p, details=d) for p, d in zip(pairs, details, strict=True)),
        settings=typed(content["settings"], Mapping[str, Any], f"{path}: settings"),
        versions=typed(content["versions"], Mapping[str, str], f"{path}: versions"),
        request=typed(content.get("request", {}), Mapping[str, Any], f"{path}: request"),
        notes=notes,
    )


def _checked_digest(content: Mapping[str, Any], path: Path) -> tuple[str, ...]:
    """Return what is to be said where there is no digest: files of earlier versions, and edited.

    Raises:
        InputError: There is one, and it is of another content.
    """
    if DIGEST not in content:
        return (f"{path.name} {NO_DIGEST}",)
    try:
        is_same = digest_of(content) == content[DIGEST]
    except (ValueError, RecursionError):  # numbers and depths that no result has
        is_same = False
    if not is_same:
        raise InputError(
            f"{path}: was changed after it was written; make it again, or, if the change is "
            f"meant, remove its {DIGEST!r}"
        )
    return ()


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is none of its numbers")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        raise ValueError("a name stands twice in one place")
    return content


def _value(name: str, cell: str) -> Any:
    """Return what a cell holds, by the type of its column, or by its looks where it has none.

    Other programs write true as TRUE, and whole numbers with a point.
    """
    kind = _TYPES.get(name)
    plain = plain_type(kind)
    if plain is str:
        # a view without a name is empty; any other empty text was undefined
        return _text(cell) if cell or kind is str else None
    if cell.lower() in ("", "true", "false"):
        return None if cell == "" else cell.lower() == "true"
    for convert in (int, float):
        if convert is int and plain is float:
            continue
        with suppress(ValueError):
            number = convert(cell)
            return int(number) if plain is int and number % 1 == 0 else number
    return _text(cell)


def _text(cell: str) -> str:
    return from_csv(printable(cell))


def _check_details(details: Mapping[str, Any], where: str) -> None:
    for report in details.get("ica", ()):
        if report.get("side") not in SIDES or "kurtosis" not in report:
            raise InputError(f"{where}: ica: lacks its side or its kurtosis; {_WHY_DAMAGED}")
    spectra = details.get("spectra", {})
    if spectra and not set(SIDES) <= spectra.keys():
        raise InputError(f"{where}: spectra: got {', '.join(spectra)}, expected both sides")
    if any(value < 0 for values in spectra.values() for value in values):
        raise InputError(f"{where}: spectra: got a negative variance, expected none")


def _pairs(records: list[Record], measures: list[Record], path: Path) -> Iterator[PairResults]:
    """Yield what there is of each pair.

    Raises:
        InputError: There is nothing, or something twice.
    """
    if not records and not measures:
        raise InputError(f"{path}: holds no records; expected one a map, split and pair")
    by_map, by_measure = _grouped(records, "map"), _grouped(measures, "measure")
    for pair in dict.fromkeys((*by_map, *by_measure)):
        yield PairResults(by_map.get(pair, ()), None, by_measure.get(pair, ()))


def _grouped(records: list[Record], of: str) -> dict[tuple[str, ...], tuple[Record, ...]]:
    groups: dict[tuple[str, ...], dict[tuple[str, str], Record]] = {}
    for record in records:
        key = tuple(record[name] for name in ("source", "source_view", "target", "target_view"))
        kind = (record[of], record["split"])
        if kind in groups.setdefault(key, {}):
            raise InputError(f"{' and '.join(kind)}: stands twice for one pair; expected it once")
        groups[key][kind] = record
    return {key: tuple(group.values()) for key, group in groups.items()}
