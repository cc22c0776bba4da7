"""One number with a name, or the reason why there is none."""

from dataclasses import dataclass

from repalign.exceptions import InputError


@dataclass(frozen=True)
class Score:
    """A score; ``value`` is None exactly when ``reason`` says in one line why it is undefined."""

    name: str
    value: float | None
    reason: str = ""


def undefined(name: str, reason: str) -> Score:
    """Return the score ``name`` without a value, and why."""
    if not reason:
        raise InputError(f"score {name} has neither a value nor a reason; expected one of them")
    return Score(name=name, value=None, reason=reason)
