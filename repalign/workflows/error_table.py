"""The table of Table 1 of the paper, with what makes it readable: baseline, splits, nulls."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Record = Mapping[str, Any]

# Heading of every map, in the order of the columns; the arrow says which way is better.
HEADINGS = {
    "mean": "Mean only ↓",
    "identity": "Identity ↓",
    "permutation": "Permutation ↓",
    "permutation+scale": "Permutation+scale ↓",
    "rigid-noscale": "Rigid, no scale ↓",
    "rigid": "Rigid ↓",
    "linear": "Linear ↓",
    "ica": "ICA ↓",
    "ica+scale": "ICA+scale ↓",
    "ica-components": "ICA, components ↓",
}
SUPERVISED = ("rigid-noscale", "rigid", "linear")
EFFICIENCY = "eff. % ↑"
UNDEFINED = "n/a"
CAPTION = (
    "error = mean ‖prediction − target‖ / diameter of the target; ↓ lower is closer, ↑ higher is "
    "better; null = the same fit on shuffled pairs; eff. = (permutation − ICA) / (permutation − "
    "rigid)"
)


@dataclass(frozen=True)
class ErrorTable:
    """Cells of the table: a heading a column, a line an error, interval, null or p-value."""

    headings: tuple[str, ...]
    supervised: tuple[bool, ...]
    lines: tuple[tuple[str, ...], ...]
    starts: tuple[int, ...]
    caption: str = CAPTION

    def as_text(self) -> str:
        """Return the table in columns of equal width."""
        rows = [self.headings, *self.lines]
        widths = [max(len(row[i]) for row in rows) for i in range(len(self.headings))]
        text = [
            "  ".join(c.ljust(w) for c, w in zip(r, widths, strict=True)).rstrip() for r in rows
        ]
        text.insert(1, "  ".join("-" * width for width in widths))
        return "\n".join([*text, "", self.caption]) + "\n"

    def as_markdown(self) -> str:
        """Return the table as Markdown."""
        lines = ["| " + " | ".join(self.headings) + " |", "|" + "---|" * len(self.headings)]
        lines += ["| " + " | ".join(line) + " |" for line in self.lines]
        return "\n".join([*lines, "", self.caption]) + "\n"

    def as_latex(self) -> str:
        """Return the table as LaTeX in the layout of the paper (needs the package booktabs)."""
        first, last = _span(self.supervised)
        over = ["" for _ in self.headings]
        rules = ""
        if first is not None and last is not None:
            over[first : last + 1] = [rf"\multicolumn{{{last - first + 1}}}{{c}}{{Supervised}}"]
            rules = rf"\cmidrule(lr){{{first + 1}-{last + 1}}}"
        body = [" & ".join(_latex(cell) for cell in line) + r" \\" for line in self.lines]
        for start in reversed(self.starts[1:]):
            body.insert(start, r"\midrule")
        return "\n".join(
            [
                rf"\begin{{tabular}}{{lll{'r' * (len(self.headings) - 3)}}}",
                r"\toprule",
                " & ".join(over) + r" \\ " + rules,
                " & ".join(_latex(heading) for heading in self.headings) + r" \\",
                r"\midrule",
                *body,
                r"\bottomrule",
                r"\end{tabular}",
                f"% {self.caption}",
            ]
        )


def error_table(records: Sequence[Record]) -> ErrorTable:
    """Arrange records: a block of lines a pair and split, a column a map."""
    maps = [name for name in HEADINGS if any(record["map"] == name for record in records)]
    columns: list[tuple[str, bool]] = []
    for name in maps:
        columns.append((name, False))
        if any(r["map"] == name and _has_efficiency(r) for r in records):
            columns.append((name, True))
    headings = ["pair", "rows", ""] + [
        EFFICIENCY if is_efficiency else HEADINGS[name] for name, is_efficiency in columns
    ]
    lines: list[tuple[str, ...]] = []
    starts = []
    for key, block in _blocks(records).items():
        starts.append(len(lines))
        by_map = {record["map"]: record for record in block}
        for i, (label, pick) in enumerate(_lines_of(block)):
            cells = [_cell(by_map.get(name), pick, is_eff) for name, is_eff in columns]
            lines.append((key[0] if i == 0 else "", key[1] if i == 0 else "", label, *cells))
    supervised = [False] * 3 + [name in SUPERVISED and not is_eff for name, is_eff in columns]
    return ErrorTable(tuple(headings), tuple(supervised), tuple(lines), tuple(starts))


def _blocks(records: Sequence[Record]) -> dict[tuple[str, str], list[Record]]:
    """Group records by pair and split, in order of appearance."""
    blocks: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        views = (_named(record, "source"), _named(record, "target"))
        kind = f"{record['split']} n={record['n_rows']}"
        if record.get("ica_rows") == "disjoint" and record["map"].startswith("ica"):
            kind += ", ICA on disjoint rows"
        blocks.setdefault((" → ".join(views), kind), []).append(record)
    return blocks


def _named(record: Record, side: str) -> str:
    view = record[f"{side}_view"]
    return f"{record[side]}::{view}" if view else str(record[side])


def _lines_of(block: Sequence[Record]) -> list[tuple[str, str]]:
    """Return label and kind of the lines that this block has something to say in."""
    lines = [("error", "error")]
    if any(record["ci_low"] is not None for record in block):
        lines.append(("95 % interval", "interval"))
    if any(record["null"] is not None for record in block):
        lines += [("null", "null"), ("p", "p_value")]
    return lines


def _has_efficiency(record: Record) -> bool:
    return str(record["map"]).startswith("ica")


def _cell(record: Record | None, pick: str, is_efficiency: bool) -> str:
    if record is None:
        return ""
    if is_efficiency:
        return _efficiency_cell(record, pick)
    if pick == "interval":
        return _range(record["ci_low"], record["ci_high"], "{:.3f}")
    if pick == "p_value":
        return "" if record["p_value"] is None else f"{record['p_value']:.3g}"
    value = record[pick]
    if value is None:
        return UNDEFINED if pick == "error" else ""
    text = f"{value:.3f}"
    return text + "*" if pick == "error" and record["converged"] is False else text


def _efficiency_cell(record: Record, pick: str) -> str:
    if pick == "error":
        return _percent(record["efficiency"])
    if pick == "interval":
        if record["efficiency_low"] is None:
            return ""
        return _range(100 * record["efficiency_low"], 100 * record["efficiency_high"], "{:.0f}")
    if pick == "null" and record["efficiency_null"] is not None:
        return f"{_percent(record['efficiency_null'])} Gaussian"
    return ""


def _percent(value: float | None) -> str:
    return UNDEFINED if value is None else f"{100 * value:.0f}"


def _range(low: float | None, high: float | None, form: str) -> str:
    if low is None or high is None:
        return ""
    return f"{form.format(low)} to {form.format(high)}"


def _span(flags: Sequence[bool]) -> tuple[int | None, int | None]:
    where = [i for i, flag in enumerate(flags) if flag]
    return (where[0], where[-1]) if where else (None, None)


def _latex(cell: str) -> str:
    replaced = cell.replace("\\", r"\textbackslash{}")
    for plain, latex in {"_": r"\_", "%": r"\%", "&": r"\&", "#": r"\#"}.items():
        replaced = replaced.replace(plain, latex)
    symbols = {"→": r"$\to$", "↓": r"$\downarrow$", "↑": r"$\uparrow$", "‖": r"$\|$", "−": "--"}
    for symbol, latex in symbols.items():
        replaced = replaced.replace(symbol, latex)
    return replaced
