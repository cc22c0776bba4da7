"""Conditions fitted as a run asks for them; one that cannot be fitted does not cost the others."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from repalign.aliases import FloatArray
from repalign.conditions.settings import TransformSettings
from repalign.core.conditions.fit import Condition, ConditionFitter, ConditionSettings
from repalign.engine.machine import Machine
from repalign.exceptions import InputError


@dataclass(frozen=True)
class FittedConditions:
    """What could be fitted, by name, and notes on what could not."""

    conditions: dict[str, Condition]
    notes: tuple[str, ...]


def fit_conditions(
    names: Sequence[str], values: FloatArray, how: ConditionSettings, machine: Machine
) -> FittedConditions:
    """Fit what can be fitted.

    Raises:
        InputError: none of the conditions can be fitted.
    """
    fitter = ConditionFitter(values, how, machine.memory_bytes, machine.device)
    fitted: dict[str, Condition] = {}
    notes = []
    for name in names:
        try:
            fitted[name] = fitter.fit(name)
        except InputError as refusal:
            notes.append(f"{name} was left out: {refusal}")
    if not fitted:
        raise InputError("; ".join(notes))
    return FittedConditions(fitted, tuple(notes))


def condition_settings(settings: TransformSettings, seed: int) -> ConditionSettings:
    """Return how the conditions are fitted in the repetition of this seed."""
    ica = replace(settings.ica, max_rank=settings.components, seed=seed, start="random")
    return ConditionSettings(ica=ica, seed=seed)
