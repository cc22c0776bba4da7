"""Reading results back: the JSON or the CSV that ``compare`` and ``demo`` write."""

import csv
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from repalign.exceptions import InputError
from repalign.options import options_of, plain_type
from repalign.workflows.compare.results import COLUMNS
from repalign.workflows.compare.settings import CompareSettings

Record = Mapping[str, Any]

_FORMAT = "repalign-compare"
_RECORDED = {
    each.column: plain_type(each.type)
    for each in options_of(CompareSettings)
    if each.declared.recorded
}
_TEXTS = {"source", "target", "source_view", "target_view", "map", "split"} | {
    "pair",
    "paper_pair",
    *(name for name, kind in _RECORDED.items() if kind not in (int, float)),
}
_COUNTS = {"n_rows", "source_dim", "target_dim", "n_fit_rows", "n_folds", "n_null", "null_rows"} | {
    "seed",
    "ica_iterations",
    "source_ica_seed",
    "target_ica_seed",
    *(name for name, kind in _RECORDED.items() if kind is int),
    "source_rank",
    "target_rank",
}
# What every drawing and table needs; other columns may be missing.
_NEEDED = COLUMNS[: COLUMNS.index("seed") + 1]


@dataclass(frozen=True)
class PairResults:
    """The records of one pair, and what else is known of it; None from a CSV."""

    records: tuple[Record, ...]
    details: Mapping[str, Any] | None

    @property
    def title(self) -> str:
        """Source and target, with their views."""
        first = self.records[0]
        sides = [
            f"{first[side]}::{first[f'{side}_view']}" if first[f"{side}_view"] else first[side]
            for side in ("source", "target")
        ]
        return " → ".join(sides)


@dataclass(frozen=True)
class Results:
    """Everything that a file of results holds."""

    name: str
    pairs: tuple[PairResults, ...]
    settings: Mapping[str, Any]
    versions: Mapping[str, str]

    @property
    def records(self) -> list[Record]:
        """The records of all pairs."""
        return [record for pair in self.pairs for record in pair.records]


def read_results(path: Path) -> Results:
    """Read results from .json (complete) or .csv (records alone).

    Raises:
        InputError: The file cannot be read or holds something else.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read; give the .json or .csv of a result") from error
    if path.suffix.lower() == ".csv":
        return _from_csv(text, path)
    if path.suffix.lower() == ".json":
        return _from_json(text, path)
    raise InputError(f"{path}: got the ending '{path.suffix}', expected .json or .csv")


def _from_csv(text: str, path: Path) -> Results:
    reader = csv.DictReader(text.splitlines())
    records = [{key: _value(key, cell, path) for key, cell in row.items()} for row in reader]
    _check(records, path)
    pairs = tuple(PairResults(group, None) for group in _grouped(records))
    return Results(path.name, pairs, {}, {})


def _from_json(text: str, path: Path) -> Results:
    try:
        content = json.loads(text)
    except ValueError as error:
        raise InputError(f"{path}: is no JSON ({error})") from error
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise InputError(
            f"{path}: is no result of a comparison; expected what "
            "`repalign compare -o results.json` writes"
        )
    records = content["records"]
    _check(records, path)
    groups, details = _grouped(records), content["pairs"]
    if len(groups) != len(details):
        raise InputError(
            f"{path}: holds records of {len(groups)} pairs and details of {len(details)}; it was "
            "changed after it was written"
        )
    return Results(
        name=path.name,
        pairs=tuple(PairResults(g, d) for g, d in zip(groups, details, strict=True)),
        settings=content["settings"],
        versions=content["versions"],
    )


def _value(key: str | None, cell: str | None, path: Path) -> Any:
    if key is None or cell is None:
        raise InputError(f"{path}: a line has more or fewer cells than the header; is it cut off?")
    if key in _TEXTS:
        # a view without a name is empty; any other empty text was undefined
        return cell if cell or key.endswith("_view") else None
    if cell in ("", "true", "false"):
        return None if cell == "" else cell == "true"
    try:
        return int(cell) if key in _COUNTS else float(cell)
    except ValueError:
        return cell


def _check(records: list[dict[str, Any]], path: Path) -> None:
    if not records:
        raise InputError(f"{path}: holds no records; expected one a map, split and pair")
    missing = [name for name in _NEEDED if name not in records[0]]
    if missing:
        raise InputError(
            f"{path}: lacks the column {missing[0]!r}; expected what `repalign compare` writes"
        )


def _grouped(records: list[dict[str, Any]]) -> list[tuple[Record, ...]]:
    groups: dict[tuple[str, ...], list[Record]] = {}
    for record in records:
        key = tuple(record[name] for name in ("source", "source_view", "target", "target_view"))
        groups.setdefault(key, []).append(record)
    return [tuple(group) for group in groups.values()]
