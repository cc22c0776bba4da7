"""The measures of similarity of every pair, next to the error table."""

from collections.abc import Mapping, Sequence

from repalign.core.measures import measure_called
from repalign.tables.table import (
    UNDEFINED,
    Line,
    Record,
    Table,
    distinct,
    pair_of,
    short_number,
)

TITLE = "Measures of similarity: ↑ higher is closer, ↓ lower is closer"
HELD_OUT = "held-out: on rows not used for fitting; measures that fit nothing use all rows"
SHUFFLED = "null and p: the same on shuffled pairs"
MORE = "--help and docs/measures.md say what each leaves as it is"


def measures_table(records: Sequence[Record]) -> Table:
    """Arrange records of measures: a block a pair, a column a measure.

    Raises:
        InputError: A measure is unknown.
    """
    names = distinct(record["measure"] for record in records)
    by_pair: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        by_pair.setdefault(pair_of(record), []).append(record)
    lines: list[Line] = []
    for pair, members in by_pair.items():
        lines.append(Line(" → ".join(pair)))
        for split in distinct(record["split"] for record in members):
            by_name = {record["measure"]: record for record in members if record["split"] == split}
            lines += _lines(split, by_name, names)
    headings = tuple(measure_called(name).heading for name in names)
    return Table(headings, tuple(lines), TITLE, (_note(records),))


def _note(records: Sequence[Record]) -> str:
    """Say what the lines are, as far as there are any."""
    is_held_out = any(record["split"] != "in-sample" for record in records)
    is_shuffled = any(record["null"] is not None for record in records)
    return "; ".join([HELD_OUT] * is_held_out + [SHUFFLED] * is_shuffled + [MORE])


def _lines(split: str, by_name: Mapping[str, Record], names: Sequence[str]) -> list[Line]:
    counts = distinct(record["n_rows"] for record in by_name.values())
    count = f"{' and '.join(map(str, counts))} rows"
    label = f"{split}, {count}" if any(map(_fits, by_name)) else f"all {count}"
    lines = [Line(label, tuple(_cell(by_name.get(name), "value") for name in names))]
    for title, key in (
        ("  95 %", "ci"),
        ("  null", "null"),
        ("  p", "p_value"),
        ("  p search", "p_search"),
    ):
        cells = tuple(_cell(by_name.get(name), key) for name in names)
        lines += [Line(title, cells, is_detail=True)] if any(cells) else []
    return lines


def _fits(name: str) -> bool:
    return measure_called(name).fits


def _cell(record: Record | None, key: str) -> str:
    if record is None:
        return ""
    if key == "ci":
        low, high = record["ci_low"], record["ci_high"]
        if low is None or high is None:
            return ""
        between = " to " if min(low, high) < 0 else "–"
        return f"{_signed(low)}{between}{_signed(high)}"
    value = record[key]
    if value is None:
        return UNDEFINED if key == "value" else ""
    return _signed(value)


def _signed(value: float) -> str:
    """Return three decimals without the leading zero, and no minus before nothing."""
    text = short_number(abs(value))
    return f"-{text}" if value < 0 and text.strip(".0") else text
