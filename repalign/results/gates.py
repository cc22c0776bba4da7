"""Gates: bounds on what a comparison measures, and an earlier result that it must keep up with."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from repalign.exceptions import InputError
from repalign.results.files import Results, read_results
from repalign.tables.quantities import (
    SPLITS,
    Quantity,
    Reading,
    full_name,
    holds,
    quantities_in,
    reading,
)
from repalign.tables.table import pair_of

Record = Mapping[str, Any]
Pair = tuple[str, str]
Side = Literal["above", "below"]

# So many pairs are named in a message; the others are counted.
MOST_NAMED = 3


@dataclass(frozen=True)
class Bound:
    """A value may not lie on one side of a limit."""

    quantity: str
    side: Side
    limit: float

    def holds(self, value: float | None) -> bool:
        """Tell whether a value keeps the bound; what is undefined does not."""
        if value is None or math.isnan(value):
            return False
        return value <= self.limit if self.side == "above" else value >= self.limit

    def __str__(self) -> str:
        return f"{'at most' if self.side == 'above' else 'at least'} {self.limit:g}"


@dataclass(frozen=True)
class Verdict:
    """Which gates a result breaks, a line each, how many there are, and the split judged."""

    broken: tuple[str, ...]
    n_judged: int
    split: str


@dataclass(frozen=True)
class Gates:
    """Everything that must hold.

    Attributes:
        bounds: Limits of values.
        baseline: Earlier result to keep up with.
        tolerance: By how much a value may be worse than there.
    """

    bounds: tuple[Bound, ...] = ()
    baseline: Results | None = None
    tolerance: float = 0.0

    def __bool__(self) -> bool:
        return bool(self.bounds) or self.baseline is not None

    def check(self, quantities: Sequence[Quantity], pairs: Iterable[Pair]) -> None:
        """Check, before anything is computed, that every gate can be judged.

        Raises:
            InputError: A bound is of something that is not measured, or the baseline has other
                pairs or measures something else.
        """
        names = [quantity.name for quantity in quantities]
        for bound in self.bounds:
            if bound.quantity not in names:
                raise InputError(
                    f"--fail-{bound.side}: {bound.quantity!r} is not measured here; expected one "
                    f"of {', '.join(names)}"
                )
        if self.baseline is None:
            return
        records = self.baseline.everything
        absent = [q.name for q in quantities_in(records) if q.name not in names]
        if absent:
            raise InputError(
                f"--baseline {self.baseline.name}: holds {', '.join(absent)}, which this "
                "comparison does not measure: ask for the same maps"
            )
        before, now = set(map(pair_of, records)), set(pairs)
        for text, missing in (
            ("has not the pair", now - before),
            ("has a pair that is not compared here:", before - now),
        ):
            if missing:
                raise InputError(f"--baseline {self.baseline.name}: {text} {_some(missing)}")

    def judge(self, records: Sequence[Record]) -> Verdict:
        """Return which gates the records of a result break."""
        values = _values(records)
        lines = [
            _beyond(pair, quantity, _split(by_split), by_split, bound)
            for bound in self.bounds
            for (pair, quantity), by_split in values.items()
            if quantity.name == bound.quantity
        ]
        earlier = {} if self.baseline is None else _values(self.baseline.everything)
        for (pair, quantity), before in earlier.items():
            now = values.get((pair, quantity), {})
            lines.append(_worse(pair, quantity, before, now, self.tolerance))
        split = _split({record["split"] for record in records})
        return Verdict(tuple(line for line in lines if line), len(lines), split)


def parse_bounds(texts: Sequence[str], side: Side) -> Iterator[Bound]:
    """Yield the bounds of texts such as ``rigid=0.15``.

    Raises:
        InputError: A text is not a name with a number.
    """
    for text in texts:
        name, _, limit = text.partition("=")
        number = limit.strip()
        if not name.strip() or not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", number):
            raise InputError(
                f"--fail-{side}: got {text!r}, expected a name and a number, as in rigid=0.15"
            )
        yield Bound(full_name(name.strip()), side, float(number))


def read_gates(bounds: tuple[Bound, ...], baseline: Path | None, tolerance: float = 0.0) -> Gates:
    """Return gates with an earlier result, from a .json or .csv.

    Raises:
        InputError: It is not a result, or the tolerance is negative.
    """
    if not 0 <= tolerance < math.inf:
        raise InputError(f"--tolerance: got {tolerance}, expected a number of at least 0")
    return Gates(bounds, None if baseline is None else read_results(baseline), tolerance)


def _values(records: Sequence[Record]) -> dict[tuple[Pair, Quantity], dict[str, Reading]]:
    """Return the readings of every quantity of every pair, by split."""
    by_pair: dict[Pair, list[Record]] = {}
    for record in records:
        by_pair.setdefault(pair_of(record), []).append(record)
    return {
        (pair, quantity): {r["split"]: reading(r, quantity) for r in members if holds(r, quantity)}
        for pair, members in by_pair.items()
        for quantity in quantities_in(members)
    }


def _split(splits: Iterable[str]) -> str:
    """Return the split that decides: held-out where there is that."""
    known = set(splits)
    return next(split for split in SPLITS if split in known)


def _beyond(
    pair: Pair, quantity: Quantity, split: str, by_split: Mapping[str, Reading], bound: Bound
) -> str | None:
    value, low, high = by_split[split]
    if bound.holds(value):
        return None
    subject = f"{' → '.join(pair)}: {quantity.rows_label(split)} {quantity.name}"
    line = f"{subject} is {_number(value)}, expected {bound}"
    if value is None:
        return f"{line}; it is undefined"
    if low is None or high is None:
        return line
    interval = f"95 % {_number(low)} to {_number(high)}"
    if low <= bound.limit <= high:
        interval += " holds the bound: chance may have broken it"
    return f"{line} ({interval})"


def _worse(
    pair: Pair,
    quantity: Quantity,
    before: Mapping[str, Reading],
    now: Mapping[str, Reading],
    tolerance: float,
) -> str | None:
    """Return what is worse than in the baseline by more than the tolerance."""
    splits = before.keys() & now.keys()
    if not splits:
        return (
            f"{' → '.join(pair)}: {quantity.name} was judged {' and '.join(before)} in the "
            "baseline, which it is not here"
        )
    split = _split(splits)
    expected = before[split].value
    if expected is None:
        return None  # nothing was promised
    sign = 1 if quantity.closer == "lower" else -1
    bound = Bound(quantity.name, "above" if sign > 0 else "below", expected + sign * tolerance)
    line = _beyond(pair, quantity, split, now, bound)
    return None if line is None else f"{line}; the baseline has {_number(expected)}"


def _number(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.4g}"


def _some(pairs: Iterable[Pair]) -> str:
    texts = sorted(map(" → ".join, pairs))
    n_more = len(texts) - MOST_NAMED
    return ", ".join(texts[:MOST_NAMED]) + (f" and {n_more} more" if n_more > 0 else "")
