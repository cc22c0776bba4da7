"""Hostile text in every name of a result, shown in every format: nothing of it may act."""

import json
import random
import re
from dataclasses import replace
from pathlib import Path

import numpy as np

from repalign import compare
from repalign.cli.formats import FORMATS, MATRIX, render
from repalign.comparison.results import CompareResult
from repalign.comparison.settings import CompareSettings
from repalign.printable import for_html
from repalign.tables.formats import shown_records
from tests.faults.counts import Counts

PIECES = (
    "\x1b]0;owned\x07", "\x1b[2J", "\x9b31m", "\x9d0;x\x9c", "\r", "\n", "\t", "\x00", "\x7f", "\b",
    "\u202e", "\u2066", "\u200b", "\ufeff", "\u2028", "\ud800", "\udcff", "=1+1", "@x", "|", "`x`",
    "[a](javascript:b)", "<script>x</script>", "<b>", "&amp;", "$x^2$", "\\input{x}", "%", "_", "*",
    "[red]x[/red]", "[/]", "{0}", "%s", "→", "é", "日",
)  # fmt: skip
OF_PAIRS = {
    each.name for each in FORMATS.values() if each.of_pairs
}  # what has no pairs of views has no matrix
ACTS = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b\u2028\u202a-\u202e\u2066-\u2069\ufeff]")
SURROGATE = re.compile(r"[\ud800-\udfff]")


def inject_texts(folder: Path, count: int, *, seed: int = 0) -> Counts:
    """Render results with hostile names in all formats, and as content of a page."""
    counts = Counts("text in names")
    result = _small()
    for number in range(count):
        rng = random.Random(f"texts {seed} {number}")
        text = "".join(rng.choices(PIECES, k=rng.randrange(1, 6)))
        named = _named(result, text)
        for form in FORMATS:
            records = [shown_records([{"name": text, text: 1}])]
            for shown in (named.shown(), *(records if form not in OF_PAIRS else [])):
                made = render(shown, form)
                wrong = _what_acts(made, form, text)
                counts.add("wrong" if wrong else "equal", f"{text!r} as {form}: {wrong}")
        page = for_html(text)
        counts.add("wrong" if ACTS.search(page) or "<" in page else "equal", f"{text!r} as HTML")
    return counts


def _what_acts(made: str, form: str, text: str) -> str:
    if ACTS.search(made) or SURROGATE.search(made):
        return "an acting letter"
    if form == "json" and text not in json.dumps(json.loads(made), ensure_ascii=False).replace(
        "\\\\", "\\"
    ):
        return "" if _in(json.loads(made), text) else "another text"
    if form in ("csv", MATRIX) and any(line.startswith(("=", "@")) for line in made.splitlines()):
        return "a formula"
    # a comment of LaTeX is one line, in which nothing acts
    set_text = re.sub(r"^%.*$", "", made, flags=re.MULTILINE)
    if form.endswith("latex") and re.search(r"(?<!\\)[$^]x", set_text):
        return "mathematics"
    if form.endswith("markdown") and re.search(r"(?<!\\)<script|(?<!\\)\[a|(?<!\\)`", made):
        return "a mark"
    return ""


def _in(document: object, text: str) -> bool:
    if isinstance(document, dict):
        return text in document or any(_in(value, text) for value in document.values())
    if isinstance(document, list):
        return any(_in(value, text) for value in document)
    return document == text


def _small() -> CompareResult:
    x = np.random.default_rng(0).laplace(size=(60, 3))
    cheap = CompareSettings(maps=("mean", "rigid"), n_null=0, n_rotations=0, n_halves=0)
    return compare(x, x[:, ::-1], settings=cheap)


def _named(result: CompareResult, text: str) -> CompareResult:
    records = tuple(
        replace(each, source=text, target=text, source_view=text, target_view=text)
        for each in result.records
    )
    pairs = tuple(
        replace(each, source={**each.source, "name": text}, warnings=(text,))
        for each in result.pairs
    )
    return replace(result, records=records, pairs=pairs, versions={text: text})
