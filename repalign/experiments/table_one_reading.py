"""What the numbers of Table 1's pairs say, in plain sentences, the failures included."""

import itertools
from collections.abc import Sequence

from repalign.experiments.table_one import PairOutcome, TableOne

# The paper's order, from the richest class of maps to the poorest.
ORDER = ("linear", "rigid", "ica", "permutation")
LEVEL = 0.05


def broken_order(outcome: PairOutcome) -> tuple[str, ...]:
    """Name the neighbours of the paper's order that stand the other way round in-sample."""
    errors = {name: _error(outcome, name, "in-sample") for name in ORDER}
    return tuple(
        f"{smaller} {errors[smaller]:.3f} above {larger} {errors[larger]:.3f}"
        for smaller, larger in itertools.pairwise(ORDER)
        if errors[smaller] > errors[larger]
    )


def held_out_gap(outcome: PairOutcome, name: str = "linear") -> float:
    """Return by how much a map's error grows on rows it was not fitted on, as a fraction."""
    return _error(outcome, name, "held-out") / _error(outcome, name, "in-sample") - 1


def maps_beyond_chance(outcome: PairOutcome) -> tuple[str, ...]:
    """Name the maps that do better held out than on shuffled pairs, at the level of 5 %."""
    found = []
    for name in ORDER:
        record = outcome.record(name, "held-out")
        if record is not None and record["p_value"] is not None and record["p_value"] <= LEVEL:
            found.append(name)
    return tuple(found)


def sentences(table_one: TableOne) -> tuple[str, ...]:
    """Say what the table means; every sentence follows from the numbers."""
    related = [o for o in table_one.outcomes if o.pair.role == "related"]
    controls = [o for o in table_one.outcomes if o.pair.role != "related"]
    return (
        _agreement(related),
        *_orders(related),
        _gaps(related),
        *(_efficiency(related)),
        *(_control(outcome) for outcome in controls),
    )


def _agreement(related: Sequence[PairOutcome]) -> str:
    rigid = [_error(o, "rigid", "held-out") for o in related]
    null = [_null(o, "rigid") for o in related]
    all_beyond = all("rigid" in maps_beyond_chance(o) for o in related)
    start = "Every pair of trained models agrees" if all_beyond else "Not every pair agrees"
    return (
        f"{start} up to a rotation better than chance: on rows it was not fitted on, a rigid map "
        f"misses by {_range(rigid)} of the target's diameter, where shuffled pairs give "
        f"{_range(null)}."
    )


def _orders(related: Sequence[PairOutcome]) -> list[str]:
    kept = [o for o in related if not broken_order(o)]
    count = f"{len(kept)} of {len(related)}"
    found = [
        f"The paper's order, linear ≤ rigid ≤ ICA ≤ permutation in-sample, holds for {count} pairs."
    ]
    found += [
        f"It does not hold for {o.pair.title}: {', '.join(broken_order(o))}."
        for o in related
        if broken_order(o)
    ]
    return found


def _gaps(related: Sequence[PairOutcome]) -> str:
    gaps = [100 * held_out_gap(o) for o in related]
    return (
        "In-sample numbers, which the paper prints, flatter: on held-out rows the linear error "
        f"changes by {min(gaps):+.1f} to {max(gaps):+.1f} %."
    )


def _efficiency(related: Sequence[PairOutcome]) -> list[str]:
    best = []
    for outcome in related:
        record = outcome.record("ica", "held-out")
        if record is None or record["efficiency"] is None:
            continue
        null = record["efficiency_null"]
        beside = "" if null is None else f" (Gaussian null {100 * null:.0f})"
        best.append(f"{outcome.pair.title} {100 * record['efficiency']:.0f}{beside}")
    if not best:
        return []
    return [
        "How much of the way from permutation to rotation ICA finds without seeing the other "
        f"model, held out, in per cent: {'; '.join(best)}."
    ]


def _control(outcome: PairOutcome) -> str:
    beyond = maps_beyond_chance(outcome)
    title = outcome.pair.title
    if outcome.pair.role == "unrelated":
        if beyond:
            return f"{title}: should be at its null, but is not for {', '.join(beyond)}."
        return f"{title}: no map does better than on shuffled pairs, as it should be."
    rigid, null = _error(outcome, "rigid", "held-out"), _null(outcome, "rigid")
    return (
        f"{title}: both see the same images, which alone gives a rigid error of {rigid:.3f} "
        f"(null {null:.3f}); read the trained pairs against this, not against zero."
    )


def _error(outcome: PairOutcome, name: str, split: str) -> float:
    record = outcome.record(name, split)
    assert record is not None
    return float(record["error"])


def _null(outcome: PairOutcome, name: str) -> float:
    record = outcome.record(name, "held-out")
    assert record is not None
    return float(record["null"])


def _range(values: Sequence[float]) -> str:
    low, high = f"{min(values):.3f}", f"{max(values):.3f}"
    return low if low == high else f"{low} to {high}"
