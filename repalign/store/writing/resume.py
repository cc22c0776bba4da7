"""What differs between the settings of a store and those it is to be continued with."""

from pathlib import Path
from typing import Any

from repalign.exceptions import StoreError
from repalign.store.format.layout import Description
from repalign.store.format.sealed_json import canonical_json

_SHOWN = 5


def check_same_settings(there: Description, wanted: Description, where: Path) -> None:
    """Refuse to continue a store that was made in another way, and say in which.

    Raises:
        StoreError: spec or views differ; the message names the keys.
    """
    old, new = there.to_json(), wanted.to_json()
    changed = changed_keys(
        {"spec": old["spec"], "views": old["views"]},
        {"spec": new["spec"], "views": new["views"]},
    )
    if changed:
        more = f" and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else ""
        raise StoreError(
            f"{where}: was written with other settings: {'; '.join(changed[:_SHOWN])}{more}; use "
            "the same, write to another path, or allow overwriting"
        )


def changed_keys(old: Any, new: Any, prefix: str = "") -> list[str]:
    """Return what differs between two JSON values, as ``key: old → new`` with dotted keys."""
    if isinstance(old, dict) and isinstance(new, dict):
        found = []
        for key in sorted(old.keys() | new.keys()):
            found += changed_keys(
                old.get(key, "(absent)"), new.get(key, "(absent)"), f"{prefix}.{key}".lstrip(".")
            )
        return found
    if old == new and type(old) is type(new):
        return []
    return [f"{prefix}: {_short(old)} → {_short(new)}"]


def _short(value: Any) -> str:
    """Return a value for a message, cut to 60 characters."""
    text = value if value == "(absent)" else canonical_json(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
