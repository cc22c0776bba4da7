"""The table of Table 1 of the paper, with what makes it readable: baseline, splits, nulls."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from repalign.core.maps import ALL_MAPS, KIND_OF
from repalign.core.resampling.kinds import NULL_OF, PAIR_SHUFFLES, nulls_of
from repalign.exceptions import InputError
from repalign.tables.table import (
    GAP,
    UNDEFINED,
    Line,
    Table,
    distinct,
    pair_of,
    short_number,
    short_percent,
)

if TYPE_CHECKING:
    from repalign.comparison.results import IcaReport, PairReport

Record = Mapping[str, Any]

EFFICIENCY = "% eff. ↑"
# What errors are divided by.
DENOMINATORS = {
    "diameter": "diameter of all target rows",
    "rms": "RMS radius of all target rows",
}
# What the interval of a split is of.
INTERVALS = {
    "in-sample": "in-sample, for the average error of this procedure",
    "held-out": "held-out, for the error of these maps on new groups",
}
SHUFFLED = f"null and p: {NULL_OF['shuffled pairing'].told}"
EFFICIENCY_IS = (
    "% eff.: (permutation − ICA) / (permutation − rigid), ↑ better; not a share: it can pass 100 % "
    "and depends on the scale of both sides"
)
EFFICIENCY_SPLITS = (
    "in-sample both ICAs see the same rows, which raises it; held-out they see disjoint halves"
)
ROTATIONS = f"null: mean ± sd of {NULL_OF['random rotations'].told}"
UNCONVERGED = "*: ICA did not converge"
# Letters of a line where no terminal has another width.
WIDTH = 100
WELL_MATCHED = 0.9
NULLS = nulls_of("compare")
NULL_LINES = tuple(
    label
    for label in dict.fromkeys([kind.line for kind in NULLS] + [kind.p_line for kind in NULLS])
    if label
)


@dataclass(frozen=True)
class ErrorColumn:
    """One column: a map's errors, or its efficiency."""

    map: str
    is_efficiency: bool

    @property
    def of(self) -> Literal["error", "efficiency"]:
        """What its numbers are, as records call it."""
        return "efficiency" if self.is_efficiency else "error"

    @property
    def heading(self) -> str:
        """Heading, with the arrow that says which way is better."""
        return EFFICIENCY if self.is_efficiency else KIND_OF[self.map].heading

    @property
    def is_supervised(self) -> bool:
        """Whether the map sees the pairing of rows when it is fitted."""
        return KIND_OF[self.map].is_supervised and not self.is_efficiency


def error_table(records: Sequence[Record], notes: Sequence[Sequence[str]] = ()) -> Table:
    """Arrange records in the layout of the paper, with the notes of each pair in order.

    Raises:
        InputError: A record is of a map that is unknown here, and would have no column.
    """
    columns = error_columns(records)
    lines: list[Line] = []
    by_pair: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        by_pair.setdefault(pair_of(record), []).append(record)
    for number, (pair, members) in enumerate(by_pair.items()):
        pair_notes = tuple(notes[number]) if notes else ()
        lines.append(Line(" → ".join(pair), size=_size(members), notes=pair_notes))
        lines += error_lines(members, columns)
    denominators = {record.get("denominator") or "diameter" for record in records}
    return errors_as_table(columns, lines, "rms" if denominators == {"rms"} else "diameter")


def errors_as_table(
    columns: Sequence[ErrorColumn], lines: Sequence[Line], denominator: str = "diameter"
) -> Table:
    """Return lines of errors below the headings of their pairs as a table, with its legend."""
    headings = [place for place, line in enumerate(lines) if line.is_heading]
    return Table(
        tuple(column.heading for column in columns),
        tuple(
            replace(line, starts_block=place in headings[1:]) for place, line in enumerate(lines)
        ),
        legend=tuple(_legend(columns, lines, denominator)),
        supervised=tuple(column.is_supervised for column in columns),
        has_blocks=True,
        width=WIDTH,
    )


def error_columns(records: Sequence[Record]) -> list[ErrorColumn]:
    """Return the columns of the maps of some records, in the order of the paper.

    Raises:
        InputError: A map is unknown.
    """
    names = distinct(record["map"] for record in records)
    unknown = [str(name) for name in names if name not in KIND_OF]
    if unknown:
        raise InputError(f"map: got {', '.join(unknown)}, expected some of: {', '.join(ALL_MAPS)}")
    columns = []
    for name in (name for name in ALL_MAPS if name in names):
        columns.append(ErrorColumn(name, is_efficiency=False))
        if KIND_OF[name].needs_ica:
            columns.append(ErrorColumn(name, is_efficiency=True))
    return columns


def error_lines(records: Sequence[Record], columns: Sequence[ErrorColumn]) -> list[Line]:
    """Return the lines of one pair: of each split those in which its records say something."""
    cells: list[tuple[str, Callable[[Record, ErrorColumn], str]]] = [
        ("95 %", _interval_cell),
        *((label, partial(_null_cell, line=label)) for label in NULL_LINES),
        ("p search", _search_cell),
    ]
    lines = []
    for split in distinct(record["split"] for record in records):
        by_map = {record["map"]: record for record in records if record["split"] == split}
        shown = [by_map.get(column.map) for column in columns]
        lines.append(Line(split, _cells(shown, columns, _error_cell)))
        details = [
            Line(GAP + label, _cells(shown, columns, cell), is_detail=True) for label, cell in cells
        ]
        lines += [line for line in details if any(line.cells)]
    return lines


def _cells(
    records: Sequence[Record | None],
    columns: Sequence[ErrorColumn],
    cell: Callable[[Record, ErrorColumn], str],
) -> tuple[str, ...]:
    """Return a cell a column, blank where there is no record."""
    return tuple(
        "" if record is None else cell(record, column)
        for record, column in zip(records, columns, strict=True)
    )


def _size(records: Sequence[Record]) -> str:
    """Return the rows of each split and the widths of one pair."""
    rows: dict[str, int] = {}
    for record in records:
        rows.setdefault(record["split"], record["n_rows"])
    counts = ", ".join(f"{count} rows {split}" for split, count in rows.items())
    return f"{counts}; {records[0]['source_dim']} → {records[0]['target_dim']} columns"


def _legend(
    columns: Sequence[ErrorColumn], lines: Sequence[Line], denominator: str
) -> Iterator[str]:
    """Explain what a table shows, and only that."""
    splits = [line.label for line in lines if line.cells and not line.is_detail]
    shown = {line.label.strip() for line in lines if line.cells}
    yield f"error: mean ‖prediction − target‖ / {DENOMINATORS[denominator]}, ↓ closer"
    evidence = []
    if "95 %" in shown:
        unit = ", given this diameter" if denominator == "diameter" else ""
        intervals = [text for split, text in INTERVALS.items() if split in splits]
        evidence.append(f"95 % interval{unit}: {'; '.join(intervals)}")
    if PAIR_SHUFFLES[0].line in shown:
        evidence.append(SHUFFLED)
    if evidence:
        yield "; ".join(evidence)
    places = [place for place, column in enumerate(columns) if column.is_efficiency]
    if places:
        compared = [EFFICIENCY_SPLITS] if set(INTERVALS) <= set(splits) else []
        has_null = any("±" in line.cells[place] for line in lines if line.cells for place in places)
        yield "; ".join([EFFICIENCY_IS, *compared, *([ROTATIONS] if has_null else [])])
    for kind in PAIR_SHUFFLES[1:]:
        if kind.p_line in shown:
            yield f"{kind.p_line}: {kind.told}"
    if any(cell.endswith("*") for line in lines for cell in line.cells):
        yield UNCONVERGED


def _error_cell(record: Record, column: ErrorColumn) -> str:
    over_radius = not column.is_efficiency and _is_over_radius(record)
    value = record["error_over_rms_radius" if over_radius else column.of]
    if value is None:
        return UNDEFINED
    if column.is_efficiency:
        return short_percent(value)
    return short_number(value) + ("*" if record["converged"] is False else "")


def _interval_cell(record: Record, column: ErrorColumn) -> str:
    if column.is_efficiency:
        ends = record["efficiency_low"], record["efficiency_high"]
        return "" if None in ends else " to ".join(short_percent(end) for end in ends)
    low, high = ("rms_low", "rms_high") if _is_over_radius(record) else ("ci_low", "ci_high")
    ends = record.get(low), record.get(high)
    return "" if None in ends else "–".join(short_number(end) for end in ends)


def _is_over_radius(record: Record) -> bool:
    return record.get("denominator") == "rms" and bool(record["rms_radius"])


def _search_cell(record: Record, column: ErrorColumn) -> str:
    """Return the p-value of an error among all layer pairs that were looked at."""
    p_value = None if column.is_efficiency else record.get("p_search")
    return "" if p_value is None else short_number(p_value)


def _null_cell(record: Record, column: ErrorColumn, *, line: str) -> str:
    """Return what a line of a null says of an error or an efficiency."""
    for kind in NULLS:
        value = spread = None
        if (kind.of, kind.p_line) == (column.of, line):
            value, shown = record.get(kind.p_value), short_number
        elif (kind.of, kind.line) == (column.of, line):
            value, spread = record.get(kind.value), record.get(kind.spread)
            if value is not None and not column.is_efficiency and _is_over_radius(record):
                value *= record["diameter"] / record["rms_radius"]
            shown = short_percent if column.is_efficiency else short_number
        if value is not None:
            return shown(value) if spread is None else f"{shown(value)} ± {shown(spread)}"
    return ""


def pair_notes(pair: "PairReport") -> tuple[str, ...]:
    """Say in a line each what set the denominator and how the ICA of both sides went."""
    first, second = pair.diameter_rows
    exact = "exact" if pair.diameter_exact else f"at most {pair.diameter_upper:.4g}"
    spread = f"diameter {pair.diameter:.4g} ({exact}) between rows {first} and {second}"
    spread += f"; rms radius {pair.rms_radius:.4g}"
    if pair.diameter_99 is not None:
        spread += f"; 99 % of distances below {pair.diameter_99:.4g}"
    notes = [spread, *(_ica_note(report) for report in pair.ica)]
    if pair.matched_correlations:
        notes.append(_matching_note(pair.matched_correlations, pair.matched_identifiable))
    return tuple(notes)


def _matching_note(correlations: Sequence[float], identifiable: Sequence[bool]) -> str:
    """Count matches among components that mean something: chance may match all others as well."""
    mean = sum(correlations) / len(correlations)
    note = f"matched components: mean |correlation| {mean:.2f}"
    counted = [
        value for value, is_known in zip(correlations, identifiable, strict=True) if is_known
    ]
    if not counted:
        return f"{note}, which says nothing: none is less Gaussian than chance on both sides"
    good = sum(value > WELL_MATCHED for value in counted)
    both = "" if len(counted) == len(correlations) else " less Gaussian than chance on both sides"
    return f"{note}, {good} of {len(counted)}{both} above {WELL_MATCHED}"


def _ica_note(report: "IcaReport") -> str:
    state = "converged" if report.converged else "NOT converged"
    middle = sorted(report.kurtosis)[len(report.kurtosis) // 2]
    note = (
        f"ICA of the {report.side}: {state} in {report.iterations} passes (gradient "
        f"{report.gradient_rms:.0e}), rank {report.rank} of {report.dim}, median kurtosis "
        f"{middle:.2g}"
    )
    if report.identifiable is not None:
        note += f", {report.identifiable} components less Gaussian than chance"
    if report.agreement is None:
        return f"{note}; one start"
    return f"{note}; best of {report.n_starts} starts agree to {report.agreement:.2f}"
