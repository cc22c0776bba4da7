"""Records read back, of maps and of measures of similarity: types, and what must be in them."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from repalign.core.inference.kinds import PAIR_SHUFFLES
from repalign.core.maps.kinds import ALL_MAPS
from repalign.core.similarity.measures import measure_called
from repalign.exceptions import InputError
from repalign.options import options_of, plain_type
from repalign.workflows.compare.results import (
    COLUMNS,
    OWN_COLUMNS,
    ErrorRecord,
    MeasureRecord,
)
from repalign.workflows.compare.settings import CompareSettings
from repalign.workflows.report.typed import field_types, typed, typed_fields

Record = Mapping[str, Any]

SPLITS = ("in-sample", "held-out")
# What is no number below nothing. The lower end of an interval may be: it is not cut at nothing.
_NOT_NEGATIVE = ("error", "ci_high", "null", "p_value", "diameter", "rms_radius")


@dataclass(frozen=True)
class RecordKind:
    """What a record of one kind is made of.

    Attributes:
        noun: It is called so in messages.
        types: Of its columns; columns that are not among them stay as they are.
        needed: Columns that every drawing and table needs; others may be missing.
        bounds: Pairs of columns that are known together or not at all.
        check: Checks the values, whose place is named by the text.
    """

    noun: str
    types: Mapping[str, Any]
    needed: tuple[str, ...]
    bounds: tuple[tuple[str, str], ...]
    check: Callable[[Record, str], None]

    def checked(self, records: Iterable[Record], path: Path) -> list[Record]:
        """Return the records of a file with their columns in their types.

        Raises:
            InputError: One lacks a column, or holds what is never written.
        """
        return [
            self._checked(record, f"{path}: {self.noun} {number}")
            for number, record in enumerate(records, start=1)
        ]

    def _checked(self, record: Record, where: str) -> Record:
        missing = [name for name in self.needed if name not in record]
        if missing:
            raise InputError(
                f"{where}: lacks the column {missing[0]!r}; expected what `repalign compare` writes"
            )
        told = typed_fields(record, self.types, where)
        self.check(told, where)
        for low, high in self.bounds:
            if (told[low] is None) != (told[high] is None):
                raise InputError(f"{where}: has one of {low} and {high}, expected both or none")
        return {**dict.fromkeys(self.types), **record, **told}


def is_measured(record: Record) -> bool:
    """Tell a record of a measure from one of a map."""
    return bool(record.get("measure"))


def _check_map(record: Record, where: str) -> None:
    for name in _NOT_NEGATIVE:
        value = record.get(name)
        if value is not None and value < 0:
            raise InputError(f"{where}: {name}: got {value}, expected no negative number")


def _check_measure(record: Record, where: str) -> None:
    better = measure_called(record["measure"]).better
    typed(record["better"], Literal[better], f"{where}: better")


def _recorded_type(kind: Any) -> Any:
    """Return how an option is recorded: several values are one text; none where it is not used."""
    return (kind if kind in (int, float, bool) else str) | None


def _types_of(columns: tuple[str, ...], record: type) -> dict[str, Any]:
    """Return the types of columns, from the dataclass and the settings that write them."""
    own = field_types(record)
    further = {kind.p_value: own["p_value"] for kind in PAIR_SHUFFLES[1:]}
    options = {
        each.column: _recorded_type(plain_type(each.type)) for each in options_of(CompareSettings)
    }
    chosen = {"map": Literal[ALL_MAPS], "split": Literal[SPLITS]}
    types = options | own | further
    return {name: chosen.get(name, kind) for name, kind in types.items() if name in columns}


MAP_RECORDS = RecordKind(
    noun="record",
    types=_types_of(COLUMNS, ErrorRecord),
    needed=COLUMNS[: COLUMNS.index("seed") + 1],
    bounds=(("ci_low", "ci_high"), ("efficiency_low", "efficiency_high")),
    check=_check_map,
)
MEASURE_RECORDS = RecordKind(
    noun="measure",
    types=_types_of((*COLUMNS, *OWN_COLUMNS), MeasureRecord),
    needed=(
        *("source", "target", "source_view", "target_view", "n_rows", "split", "measure", "value"),
        *("ci_low", "ci_high", "null", "p_value", "better"),
    ),
    bounds=(("ci_low", "ci_high"),),
    check=_check_measure,
)
