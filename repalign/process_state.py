"""Settings of the whole process that calls in several threads change and restore together."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Setting:
    """A setting of the process; those of one name are the same setting.

    Attributes:
        name: Of the setting.
        read: Returns the value to restore later.
        write: Sets a value.
    """

    name: str
    read: Callable[[], Any] = field(compare=False)
    write: Callable[[Any], object] = field(compare=False)


_LOCK = threading.Lock()
_BEFORE: dict[Setting, Any] = {}
# By setting, the values of the blocks that hold it, in the order in which they began.
_HELD: dict[Setting, dict[object, Any]] = {}


@contextmanager
def holding(values: Mapping[Setting, Any]) -> Iterator[None]:
    """Hold settings of the process at values inside the block.

    The first block that holds a setting saves it, the last restores it, whichever threads they
    run in. Where blocks want different values, the one that began last decides.
    """
    block = object()
    with _LOCK:
        for setting, value in values.items():
            if setting not in _HELD:
                _BEFORE[setting] = setting.read()
                _HELD[setting] = {}
            _HELD[setting][block] = value
            setting.write(value)
    try:
        yield
    finally:
        with _LOCK:
            for setting in values:
                others = _HELD[setting]
                del others[block]
                if others:
                    setting.write(next(reversed(others.values())))
                else:
                    del _HELD[setting]
                    setting.write(_BEFORE.pop(setting))
