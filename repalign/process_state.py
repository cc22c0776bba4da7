"""Settings of the whole process that calls in several threads change and restore together."""

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


class Setting(ABC):
    """A setting of the process; objects that are equal are the same setting."""

    @abstractmethod
    def read(self) -> Any:
        """Return the value to restore later."""

    @abstractmethod
    def write(self, value: Any) -> None:
        """Set a value."""


@dataclass(frozen=True)
class LoggerLevel(Setting):
    """From which level on a logger speaks."""

    name: str

    def read(self) -> int:
        """Return the level that the logger itself has."""
        return logging.getLogger(self.name).level

    def write(self, value: int) -> None:
        """Set the level."""
        logging.getLogger(self.name).setLevel(value)


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
