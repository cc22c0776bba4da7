"""Options of the command line as keywords of a function, checked under those names."""

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, TypeVar, get_args, get_origin

from repalign.exceptions import InputError
from repalign.options import (
    DeclaredOption,
    Settings,
    check_value,
    options_of,
    plain_type,
    with_values,
)

Names = Sequence[str] | str
T = TypeVar("T", bound=Settings)


@dataclass(frozen=True)
class Spoken(Generic[T]):
    """The keywords of one function: options by their long names with ``_``, and presets.

    Attributes:
        function: Its name, for messages.
        default: The settings without any keyword.
        beside: Other arguments that a misspelt keyword may have meant.
        presets: Settings that one keyword stands for.
        change: Puts values into settings.
    """

    function: str
    default: T
    beside: tuple[str, ...]
    presets: Mapping[str, T] = field(default_factory=dict)
    change: Callable[[T, Mapping[tuple[str, ...], Any]], T] = with_values

    @cached_property
    def options(self) -> dict[str, DeclaredOption]:
        """Every option of the command line by its keyword."""
        declared = options_of(type(self.default), default=self.default)
        return {each.flag.replace("-", "_"): each for each in declared if each.flag}

    def settings_of(self, settings: T | None, given: Mapping[str, Any]) -> T:
        """Return the settings that a call means, given as such or by keywords.

        Raises:
            InputError: Both were given, a keyword is unknown, a value is not allowed, or there
                are several presets.
        """
        for name in given:
            if name not in self.options and name not in self.presets:
                raise InputError(f"{name}: is no keyword of {self.function}; {self._near(name)}")
        if settings is not None:
            if given:
                raise InputError(
                    f"settings: got them together with {', '.join(given)}; expected either "
                    "settings or keywords"
                )
            return settings
        base = self._preset_of(given)
        values = {name: self._value(name, v) for name, v in given.items() if name in self.options}
        return self.change(base, {self.options[name].path: v for name, v in values.items()})

    def _preset_of(self, given: Mapping[str, Any]) -> T:
        """Return the settings of the preset that is asked for, else the defaults."""
        for name in self.presets.keys() & given.keys():
            if not isinstance(given[name], bool):
                raise InputError(f"{name}: got {given[name]!r}, expected True or False")
        chosen = [name for name in self.presets if given.get(name)]
        if len(chosen) > 1:
            raise InputError(f"{' and '.join(chosen)} exclude each other; choose one")
        return self.presets[chosen[0]] if chosen else self.default

    def _value(self, name: str, value: Any) -> Any:
        """Return the value of the field, checked under the name of the keyword."""
        option = self.options[name]
        kind = plain_type(option.type)
        if get_origin(kind) is tuple:
            if isinstance(value, str) and get_args(kind)[0] is str:
                parts = [value] if option.declared.repeat else value.split(",")
                value = [part.strip() for part in parts if part.strip()]
            value = tuple(value) if isinstance(value, list) else value
        check_value(name, value, option.type, option.declared)
        return value

    def _near(self, name: str) -> str:
        """Say which keyword may be meant."""
        called = {each.name: keyword for keyword, each in self.options.items()}
        known = [*self.options, *self.presets, *self.beside]
        near = [called[name]] if name in called else difflib.get_close_matches(name, known, n=3)
        if near:
            return f"did you mean {' or '.join(near)}?"
        return f"expected one of: {', '.join(known)}"
