"""The table of Table 1 of the paper, with what makes it readable: baseline, splits, nulls."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from repalign.core.maps.kinds import ALL_MAPS, KIND_OF
from repalign.exceptions import InputError
from repalign.workflows.tables.layout import Layout, Line, side_name

Record = Mapping[str, Any]

EFFICIENCY = "% eff. ↑"
UNDEFINED = "n/a"
GAP = "  "
CAPTION = ("error: mean ‖prediction − target‖ / diameter of the target, ↓ closer",)
INTERVALS = (
    "95 %: in-sample, of what this procedure gives on such samples; held-out, of",
    "what these maps err on new groups; null and p: the same fits on shuffled pairs",
)
EFFICIENCIES = (
    "% eff.: (permutation − ICA) / (permutation − rigid), ↑ better, mean over pairs",
    "of starts; in-sample and held-out do not compare; null: mean ± sd of Gaussian",
    "rows of the same covariances, where ICA can identify nothing",
)
UNCONVERGED = "*: ICA did not converge"


@dataclass(frozen=True)
class ErrorColumn:
    """One column: a map's errors, or its efficiency."""

    map: str
    is_efficiency: bool

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

    @property
    def caption(self) -> tuple[str, ...]:
        """Explain what the table shows, and only that."""
        lines = [line for block in self.blocks for line in block.lines]
        parts: list[tuple[str, ...]] = [CAPTION]
        if any(not line.is_error for line in lines):
            parts.append(INTERVALS)
        if any(column.is_efficiency for column in self.columns):
            parts.append(EFFICIENCIES)
        if any(cell.endswith("*") for line in lines for cell in line.cells):
            parts.append((UNCONVERGED,))
        return tuple(text for part in parts for text in part)

    def layout(self) -> Layout:
        """Return the table as Markdown and LaTeX write it: the pair stands in the first column."""
        flags = [False, False, *(column.is_supervised for column in self.columns)]
        over = None
        if any(flags):
            over = (flags.index(True), len(flags) - 1 - flags[::-1].index(True), "Supervised")
        lines = [
            Line(
                (block.title if number == 0 else "", line.label, *line.cells),
                starts_block=number == 0 and block is not self.blocks[0],
            )
            for block in self.blocks
            for number, line in enumerate(block.lines)
        ]
        return Layout(
            columns=("pair", "", *(column.heading for column in self.columns)),
            lines=tuple(lines),
            n_labels=2,
            over=over,
            notes=tuple(note for block in self.blocks for note in block.notes),
            caption=self.caption,
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
    return ErrorTable(tuple(columns), tuple(blocks))


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
        titled[f"{title}   {', '.join(counts)}; {dims}"] = list(splits.values())
    return titled


def _lines(split: Sequence[Record], columns: Sequence[ErrorColumn]) -> list[ErrorLine]:
    """Return the lines in which the records of one split have something to say."""
    by_map = {record["map"]: record for record in split}
    kinds = [(split[0]["split"], "error")]
    if any(record["ci_low"] is not None for record in split):
        kinds.append(("  95 %", "interval"))
    if any(record["null"] is not None for record in split):
        kinds += [("  null", "null"), ("  p", "p_value")]
    return [
        ErrorLine(
            label,
            tuple(_cell(by_map.get(column.map), kind, column.is_efficiency) for column in columns),
            is_error=kind == "error",
        )
        for label, kind in kinds
    ]


def _cell(record: Record | None, kind: str, is_efficiency: bool) -> str:
    if record is None:
        return ""
    if is_efficiency:
        return _efficiency_cell(record, kind)
    if kind == "interval":
        low, high = record["ci_low"], record["ci_high"]
        return "" if low is None or high is None else f"{short_number(low)}–{short_number(high)}"
    if kind == "p_value":
        return "" if record["p_value"] is None else short_number(record["p_value"])
    if record[kind] is None:
        return UNDEFINED if kind == "error" else ""
    star = "*" if kind == "error" and record["converged"] is False else ""
    return short_number(record[kind]) + star


def _efficiency_cell(record: Record, kind: str) -> str:
    if kind == "error":
        return UNDEFINED if record["efficiency"] is None else short_percent(record["efficiency"])
    if kind == "interval" and record["efficiency_low"] is not None:
        ends = (record["efficiency_low"], record["efficiency_high"])
        return " to ".join(short_percent(end) for end in ends)
    if kind == "null" and record["efficiency_null"] is not None:
        mean, spread = record["efficiency_null"], record.get("efficiency_null_sd")
        if spread is None:
            return short_percent(mean)
        return f"{short_percent(mean)} ± {short_percent(spread)}"
    if kind == "p_value" and record.get("efficiency_p") is not None:
        return short_number(record["efficiency_p"])
    return ""


def short_number(value: float) -> str:
    """Return three decimals as the paper prints them: .219 for 0.219."""
    text = f"{value:.3f}"
    return text[1:] if text.startswith("0.") else text


def short_percent(value: float) -> str:
    """Return a fraction in whole per cent, without the sign."""
    return f"{100 * value:.0f}"
