"""Results read back: the .json and the .csv that ``compare`` and ``demo`` write.

pydantic checks what is read against the types of the dataclasses that were written.
"""

import csv
import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError, create_model

from repalign.comparison.results import (
    COLUMNS,
    OWN_COLUMNS,
    ErrorRecord,
    MeasureRecord,
    PairReport,
)
from repalign.comparison.settings import CompareSettings
from repalign.core.maps import ALL_MAPS
from repalign.core.measures import measure_called
from repalign.core.resampling.kinds import PAIR_SHUFFLES
from repalign.exceptions import InputError
from repalign.files import open_regular
from repalign.options import LARGEST_COUNT, options_of, plain_type
from repalign.printable import from_csv, printable
from repalign.tables.quantities import SPLITS
from repalign.tables.records import DIGEST, digest_of
from repalign.tables.table import side_name

Record = Mapping[str, Any]

FORMAT = "repalign-compare"
EXPECTED = "expected what `repalign compare -o results.json` writes"
LARGEST_FILE = 2**29
# Beyond these a value is damage, and drawing it would fail in ways that cannot be understood.
LONGEST_TEXT, LARGEST_NUMBER = 10_000, 1e100
SIDES = ("source", "target")
_PAIR = ("source", "source_view", "target", "target_view")
# The end of an interval below 0 is none of these: it is not cut there.
_NOT_NEGATIVE = ("error", "ci_high", "null", "p_value", "diameter", "rms_radius")
_INTERVALS = (("ci_low", "ci_high"), ("efficiency_low", "efficiency_high"))
# Columns that figures and tables need; others may be missing.
_NEEDED = COLUMNS[: COLUMNS.index("seed") + 1]
_NEEDED_OF_MEASURES = (
    *(*_PAIR, "n_rows", "split", "measure", "value"),
    *("ci_low", "ci_high", "null", "p_value", "better"),
)


class Request(BaseModel):
    """The command that made a result, and the sha256 of the files besides its inputs."""

    command: tuple[str, ...] = ()
    files: dict[str, str] = {}


@dataclass(frozen=True)
class PairResults:
    """The records of one pair, and what stands behind them; None from a CSV.

    ``records`` are those of maps, ``measures`` those of measures of similarity.
    """

    records: tuple[Record, ...]
    details: PairReport | None
    measures: tuple[Record, ...] = ()

    @property
    def everything(self) -> tuple[Record, ...]:
        """Records of maps and of measures."""
        return (*self.records, *self.measures)

    @property
    def title(self) -> str:
        """Source and target, with their views."""
        return " → ".join(side_name(self.everything[0], side) for side in SIDES)

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings of the pair; a CSV holds none."""
        return () if self.details is None else self.details.warnings


@dataclass(frozen=True)
class Results:
    """Everything that a file of results holds; ``notes`` are what a reader must know of it."""

    name: str
    pairs: tuple[PairResults, ...]
    settings: Mapping[str, Any]
    versions: Mapping[str, str]
    request: Request = field(default_factory=Request)
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
        raise InputError(f"{path}: holds more than {LARGEST_FILE >> 20} MiB; {EXPECTED}")
    try:
        text = content.decode("utf-8-sig")
        return _from_csv(text, path.name) if ending == ".csv" else _from_json(text, path.name)
    except ValidationError as error:
        raise InputError(f"{path}: {_first_problem(error)}; {EXPECTED}") from error
    except (ValueError, csv.Error, RecursionError) as error:
        raise InputError(f"{path}: {printable(str(error))}; {EXPECTED}") from error


def _first_problem(error: ValidationError) -> str:
    """Return the first problem of what was read, after the field that has it."""
    problem = error.errors(include_url=False, include_context=False)[0]
    place = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in problem["loc"])
    message = problem["msg"].removeprefix("Value error, ").removeprefix("Input ")
    value = problem["input"]
    got = f", got {str(value)[:60]!r}" if isinstance(value, str | int | float | None) else ""
    return printable(f"{place.lstrip('.')}: {message}{got}")


def _from_json(text: str, name: str) -> Results:
    content = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_unique)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError("not the result of a comparison")
    notes = _check_digest(content, name)
    _check_sizes(content, "")
    document = _Document.model_validate(content)
    pairs = _by_pair(document.records, document.measures)
    if len(pairs) != len(document.pairs):
        raise ValueError(
            f"holds records of {len(pairs)} pairs and details of {len(document.pairs)}: it was "
            "changed after it was written"
        )
    return Results(
        name,
        tuple(
            PairResults(records, details, measures)
            for (records, measures), details in zip(pairs, document.pairs, strict=True)
        ),
        document.settings,
        document.versions,
        document.request,
        notes,
    )


def _from_csv(text: str, name: str) -> Results:
    """Read the records of a CSV, or of several that were put one behind the other."""
    lines = [line for line in csv.reader(io.StringIO(text, newline=""), strict=True) if line]
    columns = [_cell(name) for name in lines[0]] if lines else []
    if len(set(columns)) < len(columns):
        raise ValueError("a column stands twice")
    rows = []
    for line in lines:
        if len(line) != len(columns):
            raise ValueError("a line has more or fewer cells than the header: it may be cut off")
        if line != lines[0]:
            cells = zip(columns, map(_cell, line), strict=True)
            # an empty cell is undefined, but for a view without a name
            rows.append(
                {key: cell if key.endswith("_view") else cell or None for key, cell in cells}
            )
    rows_by_kind = {
        "records": [row for row in rows if not row.get("measure")],
        "measures": [row for row in rows if row.get("measure")],
    }
    checked = _Rows.model_validate(rows_by_kind)
    pairs = _by_pair(checked.records, checked.measures)
    for records, measures in pairs:
        _check_sizes([*records, *measures], "records")
    return Results(name, tuple(PairResults(r, None, m) for r, m in pairs), {}, {})


def _cell(text: str) -> str:
    return from_csv(printable(text))


def _refuse_constant(constant: str) -> Any:
    raise ValueError(f"{constant} is not a number of JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        raise ValueError("a name stands twice in one place")
    return content


def _check_digest(content: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """Return a note where there is no digest.

    Raises:
        ValueError: There is one, and it is of another content.
    """
    if DIGEST not in content:
        return (f"{name} carries no digest: nothing shows whether it was changed",)
    if digest_of(content) != content[DIGEST]:
        raise ValueError(
            f"was changed after it was written; make it again, or, if the change is meant, "
            f"remove its {DIGEST!r}"
        )
    return ()


def _check_sizes(value: Any, place: str) -> None:
    """Refuse a number or a text beyond every measure, by its place."""
    if isinstance(value, dict):
        for key, item in value.items():
            _check_sizes(item, f"{place}.{key[:60]}".lstrip("."))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            _check_sizes(item, f"{place}[{number}]")
    elif isinstance(value, str) and len(value) > LONGEST_TEXT:
        raise ValueError(f"{place}: {len(value)} letters, expected at most {LONGEST_TEXT}")
    elif isinstance(value, int) and abs(value) > LARGEST_COUNT:
        raise ValueError(f"{place}: a number beyond 2^64, expected a smaller one")
    elif isinstance(value, float) and not abs(value) <= LARGEST_NUMBER:
        raise ValueError(f"{place}: got {value}, expected at most {LARGEST_NUMBER:g}")


def _by_pair(
    maps: Iterable[BaseModel], measures: Iterable[BaseModel]
) -> list[tuple[tuple[Record, ...], tuple[Record, ...]]]:
    """Return the records of maps and those of measures of each pair.

    Raises:
        ValueError: There is nothing, or something twice.
    """
    pairs: dict[tuple[str, ...], tuple[list[Record], list[Record]]] = {}
    names = set()
    for place, (kind, rows) in enumerate((("map", maps), ("measure", measures))):
        for row in rows:
            record = row.model_dump()
            pair = tuple(record[name] for name in _PAIR)
            name = (*pair, kind, record[kind], record["split"])
            if name in names:
                raise ValueError(f"{' '.join(name[-2:])}: stands twice for one pair, expected once")
            names.add(name)
            pairs.setdefault(pair, ([], []))[place].append(record)
    if not pairs:
        raise ValueError("holds no records")
    return [(tuple(of_maps), tuple(of_measures)) for of_maps, of_measures in pairs.values()]


def _check_map(row: Any) -> Any:
    for name in _NOT_NEGATIVE:
        value = getattr(row, name)
        if value is not None and value < 0:
            raise ValueError(f"{name}: got {value}, expected no negative number")
    return _check_intervals(row)


def _check_intervals(row: Any) -> Any:
    for low, high in _INTERVALS:
        if (getattr(row, low, None) is None) != (getattr(row, high, None) is None):
            raise ValueError(f"has one of {low} and {high}, expected both or none")
    return row


def _check_measure(row: Any) -> Any:
    try:
        better = measure_called(row.measure).better
    except InputError as error:
        raise ValueError(str(error)) from error
    if row.better != better:
        raise ValueError(f"better: got {row.better!r}, expected {better!r}")
    return _check_intervals(row)


def _check_report(report: PairReport) -> PairReport:
    for ica in report.ica:
        if ica.side not in SIDES:
            raise ValueError(f"ica: side: got {ica.side!r}, expected source or target")
    if report.spectra and set(report.spectra) != set(SIDES):
        raise ValueError("spectra: expected both sides")
    if any(value < 0 for values in report.spectra.values() for value in values):
        raise ValueError("spectra: got a negative variance, expected none")
    for side in (report.source, report.target):
        if any(not isinstance(side.get(key), str) for key in ("name", "view", "fingerprint")):
            raise ValueError("source, target: expected a name, a view and a fingerprint")
    return report


def _rows_type(
    record: type, columns: tuple[str, ...], needed: tuple[str, ...], check: Any, **types: Any
) -> Any:
    """Return the type of rows of the CSV, from the dataclass and the settings that write them."""
    hints = get_type_hints(record)
    hints |= {kind.p_value: hints["p_value"] for kind in PAIR_SHUFFLES[1:]}
    for option in options_of(CompareSettings):
        # several values are recorded as one text; an option that is not used is empty
        kind = plain_type(option.type)
        hints.setdefault(option.column, (kind if kind in (int, float, bool) else str) | None)
    hints |= {"split": Literal[SPLITS], **types}
    fields: dict[str, Any] = {
        name: (hints[name], ... if name in needed else None) for name in columns if name in hints
    }
    row = create_model(record.__name__, __config__=ConfigDict(extra="allow"), **fields)
    return tuple[Annotated[row, AfterValidator(check)], ...]  # type: ignore[valid-type]


_Rows: Any = create_model(
    "Rows",
    records=(
        _rows_type(ErrorRecord, COLUMNS, _NEEDED, _check_map, map=Literal[ALL_MAPS]),
        ...,
    ),
    measures=(
        _rows_type(MeasureRecord, (*COLUMNS, *OWN_COLUMNS), _NEEDED_OF_MEASURES, _check_measure),
        (),
    ),
)
_Document: Any = create_model(
    "Document",
    __base__=_Rows,
    pairs=(tuple[Annotated[PairReport, AfterValidator(_check_report)], ...], ...),
    settings=(dict[str, Any], ...),
    versions=(dict[str, str], ...),
    request=(Request, Request()),
)
