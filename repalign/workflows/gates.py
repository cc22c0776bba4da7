"""Gates: bounds on what a comparison measures, and an earlier result that it must keep up with."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from repalign.exceptions import InputError
from repalign.workflows.result_files import Results, read_results
from repalign.workflows.tables.quantities import (
    SPLITS,
    Quantity,
    Reading,
    full_name,
    holds,
    quantities_in,
    reading,
)
from repalign.workflows.tables.table import pair_of

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
class Baseline:
    """An earlier result, which a new one may be worse than by so much."""

    earlier: Results
    tolerance: float

    @property
    def name(self) -> str:
        """Name of its file."""
        return self.earlier.name


@dataclass(frozen=True)
class Judgement:
    """What the gates say of a result: a line for each that is broken, and how many were asked."""

    broken: tuple[str, ...]
    n_judged: int
    split: str


@dataclass(frozen=True)
class Gates:
    """Everything that must hold.

    Attributes:
        bounds: Limits of values.
        baseline: Earlier result to keep up with.
    """

    bounds: tuple[Bound, ...] = ()
    baseline: Baseline | None = None

    def __bool__(self) -> bool:
        return bool(self.bounds) or self.baseline is not None

    def check(self, quantities: Sequence[Quantity], pairs: Iterable[Pair]) -> None:
        """Check, before anything is computed, that every gate can be judged.

        Raises:
            InputError: A bound is of something that is not measured, or the baseline has other
                pairs or measures something else.
        """
        names = [each.name for each in quantities]
        for bound in self.bounds:
            if bound.quantity not in names:
                raise InputError(
                    f"--fail-{bound.side}: {bound.quantity!r} is not measured here; expected one "
                    f"of {', '.join(names)}"
                )
        if self.baseline is None:
            return
        earlier = self.baseline.earlier
        absent = [each.name for each in quantities_in(earlier.everything) if each.name not in names]
        if absent:
            raise InputError(
                f"--baseline {earlier.name}: holds {', '.join(absent)}, which this comparison does "
                "not measure: ask for the same maps"
            )
        before, now = {pair_of(record) for record in earlier.everything}, set(pairs)
        for text, missing in (
            ("has not the pair", now - before),
            ("has a pair that is not compared here:", before - now),
        ):
            if missing:
                raise InputError(f"--baseline {earlier.name}: {text} {_some(missing)}")

    def judge(self, records: Sequence[Record]) -> Judgement:
        """Return which gates the records of a result break."""
        measured = list(_values(records))
        values = {(pair, quantity.name): by_split for pair, quantity, by_split in measured}
        told: list[str | None] = []
        for bound in self.bounds:
            for pair, quantity, by_split in measured:
                if quantity.name == bound.quantity:
                    split = next(split for split in SPLITS if split in by_split)
                    told.append(_beyond(pair, quantity, split, by_split[split], bound))
        if self.baseline is not None:
            for pair, quantity, before in _values(self.baseline.earlier.everything):
                now = values.get((pair, quantity.name), {})
                told.append(_worse(pair, quantity, (before, now), self.baseline.tolerance))
        splits = {split for by_split in values.values() for split in by_split}
        judged_on = next(split for split in SPLITS if split in splits)
        return Judgement(tuple(line for line in told if line), len(told), judged_on)


def parse_bounds(texts: Sequence[str], side: Side) -> Iterator[Bound]:
    """Yield the bounds of texts such as ``rigid=0.15``.

    Raises:
        InputError: A text is no name with a number.
    """
    for text in texts:
        name, _, limit = text.partition("=")
        number = limit.strip()
        if not name.strip() or not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", number):
            raise InputError(
                f"--fail-{side}: got {text!r}, expected a name and a number, as in rigid=0.15"
            )
        yield Bound(full_name(name.strip()), side, float(number))


def read_baseline(path: Path, tolerance: float) -> Baseline:
    """Read an earlier result, as .json or .csv.

    Raises:
        InputError: It is none, or the tolerance is negative.
    """
    if not tolerance >= 0 or math.isinf(tolerance):
        raise InputError(f"--tolerance: got {tolerance}, expected a number of at least 0")
    return Baseline(read_results(path), tolerance)


def _values(
    records: Sequence[Record],
) -> Iterator[tuple[Pair, Quantity, dict[str, Reading]]]:
    """Yield every quantity of every pair, by split."""
    by_pair: dict[Pair, list[Record]] = {}
    for record in records:
        by_pair.setdefault(pair_of(record), []).append(record)
    for pair, members in by_pair.items():
        for quantity in quantities_in(members):
            found = [record for record in members if holds(record, quantity)]
            yield pair, quantity, {each["split"]: reading(each, quantity) for each in found}


def _beyond(pair: Pair, quantity: Quantity, split: str, got: Reading, bound: Bound) -> str | None:
    if bound.holds(got.value):
        return None
    what = f"{quantity.rows_label(split)} {quantity.name}"
    line = f"{_pair_text(pair)}: {what} is {_number(got.value)}, expected {bound}"
    if got.value is None:
        return f"{line}; it is undefined"
    if got.low is None or got.high is None:
        return line
    interval = f"95 % {_number(got.low)} to {_number(got.high)}"
    if got.low <= bound.limit <= got.high:
        interval += " holds the bound: chance may have broken it"
    return f"{line} ({interval})"


def _worse(
    pair: Pair,
    quantity: Quantity,
    values: tuple[Mapping[str, Reading], Mapping[str, Reading]],
    tolerance: float,
) -> str | None:
    """Return what is worse than in the baseline by more than the tolerance."""
    before, now = values
    split = next((split for split in SPLITS if split in before and split in now), None)
    what = f"{_pair_text(pair)}: {quantity.name}"
    if split is None:
        return f"{what} was judged {' and '.join(before)} in the baseline, which it is not here"
    was, got = before[split].value, now[split]
    if was is None:
        return None  # nothing was promised
    sign = 1 if quantity.closer == "lower" else -1
    bound = Bound(quantity.name, "above" if sign > 0 else "below", was + sign * tolerance)
    line = _beyond(pair, quantity, split, got, bound)
    return None if line is None else f"{line}; the baseline has {_number(was)}"


def _pair_text(pair: Pair) -> str:
    return " → ".join(pair)


def _number(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.4g}"


def _some(pairs: Iterable[Pair]) -> str:
    texts = sorted(map(_pair_text, pairs))
    more = len(texts) - MOST_NAMED
    return ", ".join(texts[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
