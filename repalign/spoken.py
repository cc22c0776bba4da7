"""Options as people write them: keywords of a function, checked by name, and words of a line."""

import difflib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, wraps
from typing import Any, Generic, Literal, ParamSpec, TypeVar, get_args, get_origin

from repalign.arguments import argument_checker
from repalign.exceptions import InputError, RepalignError
from repalign.options import (
    DeclaredOption,
    Settings,
    check_value,
    options_of,
    plain_type,
    value_at,
    with_values,
)

Names = Sequence[str] | str
T = TypeVar("T", bound=Settings)
P = ParamSpec("P")
R = TypeVar("R")
# An option in advice, with the word behind it, which may be its value or the sentence going on.
_FLAG = re.compile(r"--([a-z][a-z-]*)(?: ('[^']*'|[\w.,*+-]*[\w*]))?")
# Options of the command line that Python has elsewhere.
_ELSEWHERE = {"memory": "the memory_bytes of machine", "workers": "the workers of executor"}


@dataclass(frozen=True)
class Spoken(Generic[T]):
    """The keywords of one function: options by their long names with ``_``, and presets.

    Attributes:
        function: Its name, for messages.
        default: The settings without any keyword.
        others: Other arguments that a misspelt keyword may have meant.
        presets: Settings that one keyword stands for.
        change: Puts values into settings.
    """

    function: str
    default: T
    others: tuple[str, ...]
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
                raise InputError(f"{name}: is not a keyword of {self.function}; {self._near(name)}")
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
        known = [*self.options, *self.presets, *self.others]
        near = [called[name]] if name in called else difflib.get_close_matches(name, known, n=3)
        if near:
            return f"did you mean {' or '.join(near)}?"
        return f"expected one of: {', '.join(known)}"

    def in_python(self, text: str) -> str:
        """Return advice with keywords where it names options of the command line."""
        return _FLAG.sub(lambda found: self._keyword(found[1], found[2] or "", found[0]), text)

    def _keyword(self, flag: str, word: str, whole: str) -> str:
        """Return what one option is called in Python, with its value if the word is one."""
        name, rest = flag.replace("-", "_"), f" {word}" if word else ""
        if name in self.presets:
            return f"{name}=True{rest}"
        if name not in self.options:
            return _ELSEWHERE[name] + rest if name in _ELSEWHERE else whole
        option = self.options[name]
        if plain_type(option.type) is bool:
            return f"{name}={not option.default}{rest}"
        value = _literal(word, plain_type(option.type), option.declared.choices)
        return f"{name}{rest}" if value is None else f"{name}={value}"

    def speaks_python(self, function: Callable[P, R]) -> Callable[P, R]:
        """Check arguments as ``checked``; let what is refused name keywords instead of options.

        The command line calls with settings, and shows its own options.
        """
        check = argument_checker(function)

        @wraps(function)
        def speaking(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                check(args, kwargs)
                return function(*args, **kwargs)
            except RepalignError as error:
                if kwargs.get("settings") is None:
                    error.args = (self.in_python(str(error)),)
                raise

        return speaking


def _literal(word: str, kind: Any, choices: Sequence[str]) -> str | None:
    """Return a word of advice as Python writes it, or None where it is not a value of the type."""
    allowed = get_args(kind) if get_origin(kind) is Literal else choices
    if kind in (int, float):
        return word if re.fullmatch(r"\d+(\.\d+)?", word) else None
    is_names = get_origin(kind) is tuple and (word == "all" or set(word) & set("',*"))
    return json.dumps(word.strip("'")) if word in allowed or is_names else None


def words_of(settings: Settings, usual: Settings | None = None) -> list[str]:
    """Return what to write on the command line for settings that differ from the usual ones.

    Without these, every one is told: the words mean the same where the usual ones have changed.
    """
    words = []
    for each in options_of(type(settings)):
        value = value_at(settings, each.path)
        is_usual = usual is not None and value == value_at(usual, each.path)
        if not each.flag or is_usual or value is None or value == ():
            continue
        if isinstance(value, bool):
            # a flag that stands on the line says yes, or no where it begins with that
            words += [f"--{each.flag}"] if value != each.flag.startswith("no-") else []
        elif isinstance(value, tuple) and each.declared.repeat:
            words += [word for one in value for word in (f"--{each.flag}", str(one))]
        elif isinstance(value, tuple):
            words += [f"--{each.flag}", ",".join(map(str, value))]
        else:
            words += [f"--{each.flag}", str(value)]
    return words
