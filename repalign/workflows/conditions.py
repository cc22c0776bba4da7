"""Conditions fitted as a run asks for them; one that cannot be fitted does not cost the others."""

from collections.abc import Sequence

from repalign.aliases import FloatArray
from repalign.core.conditions import Condition, ConditionName, ConditionSettings, fit_condition
from repalign.core.ica.settings import DEFAULT_PASSES, IcaSettings
from repalign.exceptions import InputError
from repalign.workflows.disentangle.settings import TransformSettings


def fit_conditions(
    names: Sequence[ConditionName], values: FloatArray, how: ConditionSettings
) -> tuple[dict[str, Condition], tuple[str, ...]]:
    """Fit what can be fitted, and return it with notes on what cannot.

    Raises:
        InputError: none of the conditions can be fitted.
    """
    fitted: dict[str, Condition] = {}
    notes = []
    for name in names:
        try:
            fitted[name] = fit_condition(name, values, how)
        except InputError as refusal:
            notes.append(f"{name} was left out: {refusal}")
    if not fitted:
        raise InputError("; ".join(notes))
    return fitted, tuple(notes)


def condition_settings(settings: TransformSettings, seed: int) -> ConditionSettings:
    """Return how the conditions are fitted in the repetition of this seed."""
    ica = IcaSettings(
        contrast=settings.ica_contrast,  # type: ignore[arg-type]
        solver=settings.ica_solver,
        max_passes=settings.max_passes or DEFAULT_PASSES[settings.ica_solver],
        max_rank=settings.components,
        seed=seed,
        start="random",
    )
    return ConditionSettings(ica=ica, seed=seed)
