"""Conditions fitted by an engine; one that cannot be fitted does not cost the others."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from repalign.core.conditions.fit import Condition, ConditionFitter
from repalign.engine.cache import cache_key
from repalign.engine.engine import Engine
from repalign.engine.machine import Machine
from repalign.exceptions import InputError

ConditionSeed = tuple[str, int]
"""Name of a condition, and the seed of what is random in it."""


def fit_conditions(
    names_and_seeds: Iterable[ConditionSeed],
    fitter: ConditionFitter,
    engine: Engine,
    machine: Machine,
    origin: Any,
) -> tuple[dict[ConditionSeed, Condition], tuple[str, ...]]:
    """Return what can be fitted, by name and seed, and notes on what cannot.

    Args:
        names_and_seeds: Names and seeds.
        fitter: The rows, and how.
        engine: What computes; it keeps fits that take long.
        machine: Device, memory and progress.
        origin: Names the values of the rows, for the cache.

    Raises:
        InputError: none of the conditions can be fitted.
    """
    names_and_seeds = list(names_and_seeds)
    results = engine.map(
        "conditions",
        fit_condition,
        names_and_seeds,
        machine,
        key=lambda item: cache_key("condition", origin, item, asdict(fitter.ica)),
        shared=lambda item: (fitter,),
        only_slow=True,
    )
    conditions: dict[ConditionSeed, Condition] = {}
    notes: dict[str, None] = {}
    for (name, seed), result in zip(names_and_seeds, results, strict=True):
        if isinstance(result, str):
            notes[f"{name} was left out: {result}"] = None
        else:
            conditions[name, seed] = Condition(name, *result)
    if not conditions:
        raise InputError("; ".join(notes))
    return conditions, tuple(notes)


def fit_condition(
    machine: Machine, item: ConditionSeed, fitter: ConditionFitter
) -> tuple[Any, ...] | str:
    """Return the fields of a condition behind its name, or why it cannot be fitted."""
    try:
        fitted = fitter.fit(*item)
    except InputError as refusal:
        return str(refusal)
    return fitted.transform, fitted.n_iter, fitted.converged, fitted.warnings
