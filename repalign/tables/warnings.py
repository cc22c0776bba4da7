"""Warnings as people read them: alike ones of many pairs in one line, wrapped below a table."""

import re
from collections.abc import Iterable, Sequence
from textwrap import wrap

from repalign.printable import printable
from repalign.tables.table import WIDTH

# So many warnings that differ in names and numbers alone are one line.
FOLDED = 3


def fold_warnings(warnings: Iterable[str], names: Iterable[str], advice: str = "") -> list[str]:
    """Return each warning once, and one line for many of a kind.

    Args:
        warnings: Those of every pair.
        names: Names in which warnings of one kind may differ.
        advice: Stands behind a line that speaks for several.
    """
    longest_first = sorted(set(names), key=len, reverse=True)
    kinds: dict[str, list[str]] = {}
    for text in warnings:
        kinds.setdefault(_without_names(text, longest_first), []).append(text)
    lines = []
    for texts in kinds.values():
        distinct = list(dict.fromkeys(texts))
        if len(distinct) < FOLDED:
            lines += distinct
        else:
            lines.append(f"{len(texts)} pairs, of the first: {texts[0]}{advice}")
    return lines


def warnings_below(warnings: Sequence[str]) -> str:
    """Return what stands below a table: its warnings, or nothing."""
    lines = [
        line
        for text in warnings
        for line in wrap(
            f"warning: {printable(text)}",
            WIDTH,
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    ]
    return "".join(f"{line}\n" for line in ["", *lines]) if lines else ""


def _without_names(text: str, names: Iterable[str]) -> str:
    """Return a text without these names and without numbers."""
    for name in names:
        text = text.replace(name, "·")
    return re.sub(r"\d[\d.,]*", "#", text)
