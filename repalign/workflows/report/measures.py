"""Records of measures of similarity read back: their types, and what must be in them."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from repalign.core.similarity.measures import measure_called
from repalign.exceptions import InputError
from repalign.workflows.compare.similarity.records import MeasureRecord
from repalign.workflows.report.typed import field_types, typed_fields

Record = Mapping[str, Any]

SPLITS = ("in-sample", "held-out")
_TYPES = {name: kind for name, kind in field_types(MeasureRecord).items() if name != "conventions"}
_NEEDED = (
    *("source", "target", "source_view", "target_view", "n_rows", "split", "measure", "value"),
    *("ci_low", "ci_high", "null", "p_value", "better"),
)


def is_measured(record: Record) -> bool:
    """Tell a record of a measure from one of a map."""
    return bool(record.get("measure"))


def checked_measures(records: Iterable[Record], path: Path) -> list[Record]:
    """Return records of measures whose columns have their types; unknown ones stay as they are.

    Raises:
        InputError: One lacks a column, or holds what no measure gives.
    """
    checked: list[Record] = []
    for number, record in enumerate(records, start=1):
        where = f"{path}: measure {number}"
        missing = [name for name in _NEEDED if name not in record]
        if missing:
            raise InputError(
                f"{where}: lacks {missing[0]!r}; expected what `repalign compare` writes"
            )
        told = typed_fields(record, _TYPES, where)
        measure = measure_called(told["measure"])
        if told["better"] != measure.better:
            raise InputError(f"{where}: better: got {told['better']!r}, expected {measure.better}")
        if told["split"] not in SPLITS:
            raise InputError(
                f"{where}: split: got {told['split']!r}, expected one of {', '.join(SPLITS)}"
            )
        if (told["ci_low"] is None) != (told["ci_high"] is None):
            raise InputError(f"{where}: has one of ci_low and ci_high, expected both or none")
        checked.append({**record, **told})
    return checked
