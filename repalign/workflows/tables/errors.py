"""The table of Table 1 of the paper, with what makes it readable: baseline, splits, nulls."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from textwrap import wrap
from typing import Any, Literal

from repalign.core.inference.kinds import NULL_OF, PAIR_SHUFFLES, nulls_of
from repalign.core.maps.kinds import ALL_MAPS, KIND_OF
from repalign.exceptions import InputError
from repalign.workflows.tables.layout import Layout, Line, decimals, side_name, without_minus

Record = Mapping[str, Any]

EFFICIENCY = "% eff. ↑"
UNDEFINED = "n/a"
GAP = "  "
# Between the two sides of a pair and the numbers of its rows and columns.
TITLE_GAP = "   "
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
WIDTH = 79
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


@dataclass(frozen=True)
class ErrorLine:
    """One line of a block: errors of one split, or their intervals, nulls or p-values."""

    label: str
    cells: tuple[str, ...]
    is_error: bool


@dataclass(frozen=True)
class ErrorBlock:
    """All lines of one pair, and what stands behind them."""

    title: str
    lines: tuple[ErrorLine, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ErrorTable:
    """A block a pair, a column a map."""

    columns: tuple[ErrorColumn, ...]
    blocks: tuple[ErrorBlock, ...]
    denominator: str = "diameter"

    @property
    def caption(self) -> tuple[str, ...]:
        """Explain what the table shows, and only that, in lines of a terminal."""
        return tuple(
            line for part in self.legend for line in wrap(part, WIDTH, break_on_hyphens=False)
        )

    @property
    def legend(self) -> tuple[str, ...]:
        """Explain what the table shows, and only that."""
        lines = [line for block in self.blocks for line in block.lines]
        divided = DENOMINATORS[self.denominator]
        parts = [
            f"error: mean ‖prediction − target‖ / {divided}, ↓ closer",
            *self._evidence(lines),
        ]
        shown = {line.label.strip() for line in lines}
        parts += [
            f"{kind.p_line}: {kind.told}" for kind in PAIR_SHUFFLES[1:] if kind.p_line in shown
        ]
        if any(cell.endswith("*") for line in lines for cell in line.cells):
            parts.append(UNCONVERGED)
        return tuple(parts)

    def _evidence(self, lines: Sequence[ErrorLine]) -> Iterator[str]:
        """Yield what intervals, nulls and efficiencies are, as far as there are any."""
        splits = [line.label for line in lines if line.is_error]
        shown = {line.label.strip() for line in lines}
        intervals = [text for split, text in INTERVALS.items() if split in splits]
        given = ", given this diameter" if self.denominator == "diameter" else ""
        told = [f"95 % interval{given}: {'; '.join(intervals)}"] if "95 %" in shown else []
        if any(kind.line in shown for kind in PAIR_SHUFFLES[:1]):
            told.append(SHUFFLED)
        if told:
            yield "; ".join(told)
        columns = [place for place, each in enumerate(self.columns) if each.is_efficiency]
        if columns:
            compared = [EFFICIENCY_SPLITS] if set(INTERVALS) <= set(splits) else []
            has_null = any("±" in line.cells[place] for line in lines for place in columns)
            yield "; ".join([EFFICIENCY_IS, *compared, *([ROTATIONS] if has_null else [])])

    def layout(self) -> Layout:
        """Return the table as Markdown and LaTeX write it: a pair is a heading of its lines."""
        flags = [False, *(column.is_supervised for column in self.columns)]
        over = None
        if any(flags):
            over = (flags.index(True), len(flags) - 1 - flags[::-1].index(True), "Supervised")
        lines: list[Line] = []
        sizes: dict[str, list[str]] = {}
        for block in self.blocks:
            pair, _, size = block.title.partition(TITLE_GAP)
            sizes.setdefault(size, []).append(pair)
            blank = ("",) * len(self.columns)
            lines.append(Line((pair, *blank), is_heading=True, starts_block=bool(lines)))
            lines += [Line((line.label, *line.cells)) for line in block.lines]
        counts = [
            size if len(sizes) == 1 else f"{', '.join(pairs)}: {size}"
            for size, pairs in sizes.items()
        ]
        return Layout(
            columns=("", *(column.heading for column in self.columns)),
            lines=tuple(lines),
            over=over,
            notes=tuple(note for block in self.blocks for note in block.notes),
            caption=tuple(f"{part}." for part in (*filter(None, counts), *self.legend)),
        )


def error_table(
    records: Sequence[Record], notes: Sequence[Sequence[str]] | None = None
) -> ErrorTable:
    """Arrange records in the layout of the paper, with the notes of each pair in order.

    Raises:
        InputError: A record is of a map that is unknown here, and would have no column.
    """
    found = dict.fromkeys(record["map"] for record in records)
    unknown = [str(name) for name in found if name not in KIND_OF]
    if unknown:
        raise InputError(f"map: got {', '.join(unknown)}, expected some of: {', '.join(ALL_MAPS)}")
    columns = []
    for name in (name for name in ALL_MAPS if name in found):
        columns.append(ErrorColumn(name, is_efficiency=False))
        if KIND_OF[name].needs_ica:
            columns.append(ErrorColumn(name, is_efficiency=True))
    blocks = []
    for number, (title, splits) in enumerate(_pairs(records).items()):
        lines = tuple(line for split in splits for line in _lines(split, columns))
        blocks.append(ErrorBlock(title, lines, tuple(notes[number]) if notes else ()))
    denominators = {record.get("denominator") or "diameter" for record in records}
    denominator = "rms" if denominators == {"rms"} else "diameter"
    return ErrorTable(tuple(columns), tuple(blocks), denominator)


def title_of(record: Record) -> str:
    """Return the two sides of a record."""
    return f"{side_name(record, 'source')} → {side_name(record, 'target')}"


def _pairs(records: Sequence[Record]) -> dict[str, list[list[Record]]]:
    """Group records by pair and, within a pair, by split, in order of appearance."""
    pairs: dict[str, dict[str, list[Record]]] = {}
    for record in records:
        pairs.setdefault(title_of(record), {}).setdefault(record["split"], []).append(record)
    titled = {}
    for title, splits in pairs.items():
        counts = [f"{split[0]['n_rows']} rows {name}" for name, split in splits.items()]
        widths = next(iter(splits.values()))[0]
        dims = f"{widths['source_dim']} → {widths['target_dim']} columns"
        titled[f"{title}{TITLE_GAP}{', '.join(counts)}; {dims}"] = list(splits.values())
    return titled


def _lines(split: Sequence[Record], columns: Sequence[ErrorColumn]) -> list[ErrorLine]:
    """Return the lines in which the records of one split have something to say."""
    by_map = {record["map"]: record for record in split}
    cells: list[tuple[str, Callable[[Record, ErrorColumn], str]]] = [
        (split[0]["split"], _error_cell),
        ("95 %", _interval_cell),
        *((label, partial(_null_cell, line=label)) for label in NULL_LINES),
        ("p search", _search_cell),
    ]
    lines = []
    for label, cell in cells:
        found = tuple(
            "" if column.map not in by_map else cell(by_map[column.map], column)
            for column in columns
        )
        is_error = cell is _error_cell
        if is_error or any(found):
            lines.append(ErrorLine(label if is_error else GAP + label, found, is_error))
    return lines


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


def short_number(value: float) -> str:
    """Return three decimals as the paper prints them: .219 for 0.219."""
    text = decimals(value, 3)
    return text[1:] if text.startswith("0.") else text


def short_percent(value: float) -> str:
    """Return a fraction in whole per cent, without the sign."""
    return without_minus(f"{100 * value:.0f}")
