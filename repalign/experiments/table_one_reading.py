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
        _order(related),
        *_efficiency(related),
        *(_control(outcome) for outcome in controls),
    )


def _agreement(related: Sequence[PairOutcome]) -> str:
    rigid = [_error(o, "rigid", "held-out") for o in related]
    null = [_null(o, "rigid") for o in related]
    all_beyond = all("rigid" in maps_beyond_chance(o) for o in related)
    start = "Every pair of trained models agrees" if all_beyond else "Not every pair agrees"
    return (
        f"{start} up to a rotation better than chance: on rows it was not fitted on, a rigid map "
        f"misses by {_range(rigid)} of the target's diameter, on shuffled pairs by {_range(null)}."
    )


def _order(related: Sequence[PairOutcome]) -> str:
    kept = [o for o in related if not broken_order(o)]
    exceptions = "".join(
        f"; not for {o.pair.title}: {', '.join(broken_order(o))}" for o in related if o not in kept
    )
    gaps = [100 * held_out_gap(o) for o in related]
    return (
        "The paper's order, linear ≤ rigid ≤ ICA ≤ permutation in-sample, holds for "
        f"{len(kept)} of {len(related)} trained pairs{exceptions}. Its numbers are in-sample; on "
        f"held-out rows the linear error changes by {min(gaps):+.0f} to {max(gaps):+.0f} %."
    )


def _efficiency(related: Sequence[PairOutcome]) -> list[str]:
    records = [outcome.record("ica", "held-out") for outcome in related]
    known = [
        record for record in records if record is not None and record["efficiency"] is not None
    ]
    if not known:
        return []
    nulls = [record["efficiency_null"] for record in known if record["efficiency_null"] is not None]
    chance = f"; components rotated at random, {_percents(nulls)} %" if nulls else ""
    return [
        "ICA, which never sees the two models together, comes "
        f"{_percents([record['efficiency'] for record in known])} % of the way from permutation "
        f"to rotation, held out{chance}."
    ]


def _control(outcome: PairOutcome) -> str:
    beyond = maps_beyond_chance(outcome)
    title = outcome.pair.title[0].upper() + outcome.pair.title[1:]
    if outcome.pair.role == "unrelated":
        if beyond:
            return f"{title}: should be at its null, but is not for {', '.join(beyond)}."
        return f"{title}: no map does better than on shuffled pairs, as it should be."
    linear, rigid = (_error(outcome, name, "held-out") for name in ("linear", "rigid"))
    return (
        f"{title}: the common input alone lets a linear map reach {linear:.3f} (shuffled "
        f"{_null(outcome, 'linear'):.3f}) and a rigid one {rigid:.3f} (shuffled "
        f"{_null(outcome, 'rigid'):.3f}), so a small linear error by itself proves little."
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


def _percents(values: Sequence[float]) -> str:
    low, high = f"{100 * min(values):.0f}", f"{100 * max(values):.0f}"
    return low if low == high else f"{low} to {high}"
