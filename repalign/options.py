"""One declaration for each option: type, allowed values, default and help stand at its field.

A settings class is a frozen dataclass that inherits from ``Settings`` and whose fields are made
by ``option``. From that one place follow the checks in Python, the options of the command line
with their help (``repalign.cli.declared``), what a result records, and the pages made from the
help. A setting that holds other settings is a field of that class.
"""

import functools
import types
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass, replace
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from repalign.arguments import check_kind
from repalign.exceptions import InputError

KEY = "option"
NESTED = "nested"
LARGEST_COUNT = 2**64
T = TypeVar("T", bound="Settings")


@dataclass(frozen=True)
class Option:
    """What is declared of an option besides its name, type and default.

    Attributes:
        help: One or two sentences for people.
        flag: Name on the command line, without dashes; None: the field's own name; the empty
            text: not on the command line. ``no-…`` for a truth that is on by default.
        short: One letter for the command line.
        panel: Heading in the help under which it stands.
        least: Smallest number allowed.
        above: Number that it must exceed.
        below: Number that it must stay under.
        choices: Names allowed in a tuple of names; a Literal type says it for single values.
        absent: What None or an empty tuple stands for, shown as the default.
        metavar: Stands for the value in the help.
        repeat: A tuple is given by repeating the option, instead of between commas.
        recorded: A column of every record of the result; a text names the property that says
            what was used where the field itself may be None.
        column: Name of that column, where it is not the flag's.
    """

    help: str
    flag: str | None = None
    short: str | None = None
    panel: str | None = None
    least: float | None = None
    above: float | None = None
    below: float | None = None
    choices: tuple[str, ...] = ()
    absent: str | None = None
    metavar: str | None = None
    repeat: bool = False
    recorded: bool | str = False
    column: str | None = None


def option(
    default: Any = MISSING, /, help: str = "", *, factory: Any = MISSING, **told: Any
) -> Any:
    """Return the field of a settings class that is an option; ``told`` as in ``Option``."""
    metadata = {KEY: Option(help=help, **told)}
    if factory is not MISSING:
        return field(default_factory=factory, metadata=metadata)
    if default is MISSING:
        return field(metadata=metadata)
    return field(default=default, metadata=metadata)


def nested(settings: "Settings", *, without: tuple[str, ...] = ()) -> Any:
    """Return the field that holds other settings, with these values by default.

    ``without`` names fields of theirs that mean nothing here: the command line and the records
    leave them out.
    """
    return field(default=settings, metadata={NESTED: without})


@dataclass(frozen=True)
class DeclaredOption:
    """One option of a settings class, with the path of fields that leads to it."""

    path: tuple[str, ...]
    type: Any
    default: Any
    declared: Option

    @property
    def name(self) -> str:
        """The field's own name."""
        return self.path[-1]

    @property
    def flag(self) -> str:
        """Name on the command line, empty if it is not there."""
        if self.declared.flag is None:
            return self.name.replace("_", "-")
        return self.declared.flag

    @property
    def recorded_path(self) -> tuple[str, ...]:
        """Path to the value that is recorded."""
        told = self.declared.recorded
        return (*self.path[:-1], told) if isinstance(told, str) else self.path

    @property
    def column(self) -> str:
        """Name of its column in a table of results."""
        if self.declared.column is not None:
            return self.declared.column
        return self.flag.replace("-", "_") or self.name


@dataclass(frozen=True)
class Settings:
    """Base of settings classes: a value that was not declared as allowed is an InputError."""

    def __post_init__(self) -> None:
        """Check every field against its declaration; a whole number of a real one becomes real.

        The command line reads 0 as 0.0, and the same settings are to be written in the same way.

        Raises:
            InputError: A value is none of those allowed; the message names the field.
        """
        hints = get_type_hints(type(self))
        for declared in fields(self):
            name, hint, choice = declared.name, hints[declared.name], declared.metadata.get(KEY)
            value = getattr(self, name)
            if choice is not None:
                check_value(name, value, hint, choice)
            elif isinstance(hint, type) and is_dataclass(hint) and not isinstance(value, hint):
                raise InputError(f"{name}: got {value!r}, expected {hint.__name__}")
            if plain_type(hint) is float and type(value) is int:
                object.__setattr__(self, name, float(value))


def options_of(
    settings: type, path: tuple[str, ...] = (), default: Any = None
) -> Iterator[DeclaredOption]:
    """Yield the options of a settings class in order, those of nested settings in place.

    The defaults are those of the class, or of ``default``, an instance of it.
    """
    hints = get_type_hints(settings)
    for each in fields(settings):
        hint, declared = hints[each.name], each.metadata.get(KEY)
        value = _default(each) if default is None else getattr(default, each.name)
        if is_dataclass(hint) and isinstance(hint, type) and declared is None:
            without = each.metadata.get(NESTED, ())
            for inner in options_of(hint, (*path, each.name), value):
                if inner.name not in without:
                    yield inner
        elif declared is not None:
            yield DeclaredOption((*path, each.name), hint, value, declared)


def _default(each: "Field[Any]") -> Any:
    if each.default_factory is not MISSING:
        return each.default_factory()
    return each.default


def value_at(settings: Any, path: tuple[str, ...]) -> Any:
    """Return the value of an option of settings."""
    for name in path:
        settings = getattr(settings, name)
    return settings


def with_values(settings: T, values: Mapping[tuple[str, ...], Any]) -> T:
    """Return settings with other values at some paths, checked once all are in place."""
    changes: dict[str, Any] = {path[0]: value for path, value in values.items() if len(path) == 1}
    nested: dict[str, dict[tuple[str, ...], Any]] = {}
    for path, value in values.items():
        if len(path) > 1:
            nested.setdefault(path[0], {})[path[1:]] = value
    for name, inner in nested.items():
        changes[name] = with_values(changes.get(name, getattr(settings, name)), inner)
    return replace(settings, **changes)


def recorded_columns(settings: type) -> tuple[str, ...]:
    """Return the names of the columns that record the options of a settings class."""
    return tuple(column for column, _ in _recorded_of(settings))


def recorded_values(settings: Any) -> dict[str, Any]:
    """Return the recorded options by column; several names become one text."""
    kind: type = type(settings)
    cells = {column: value_at(settings, path) for column, path in _recorded_of(kind)}
    return {
        column: ",".join(map(str, value)) if isinstance(value, tuple) else value
        for column, value in cells.items()
    }


@functools.cache
def _recorded_of(settings: type) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the column and the path of every recorded option."""
    recorded = (declared for declared in options_of(settings) if declared.declared.recorded)
    return tuple((declared.column, declared.recorded_path) for declared in recorded)


def check_value(name: str, value: Any, hint: Any, declared: Option) -> None:
    """Check one value against its declaration.

    Raises:
        InputError: It is not of the type, not among the choices, or out of range.
    """
    if value is None and type(None) in get_args(hint):
        return
    kind = plain_type(hint)
    if get_origin(kind) is tuple:
        _check_names(name, value, get_args(kind)[0], declared)
        return
    check_kind(name, value, kind)
    _check_range(name, value, declared)


def plain_type(hint: Any) -> Any:
    """Return a type without the None that may stand for it."""
    if get_origin(hint) in (Union, types.UnionType):
        inner = [part for part in get_args(hint) if part is not type(None)]
        return inner[0] if len(inner) == 1 else hint
    return hint


def _check_names(name: str, values: Any, kind: Any, declared: Option) -> None:
    if isinstance(values, str) or not isinstance(values, tuple | list):
        raise InputError(f"{name}: got {values!r}, expected a tuple of values")
    for value in values:
        if declared.choices and (not isinstance(value, str) or value not in declared.choices):
            allowed = ", ".join(declared.choices)
            raise InputError(f"{name}: got {value}, expected some of: {allowed}")
        check_kind(name, value, kind)
        _check_range(name, value, declared)
    if not values and declared.absent is None:
        raise InputError(f"{name}: got none, expected at least one")


def _check_range(name: str, value: Any, declared: Option) -> None:
    least, above, below = declared.least, declared.above, declared.below
    if isinstance(value, bool) or not isinstance(value, int | float):
        return
    if isinstance(value, int) and abs(value) > LARGEST_COUNT:  # no record could be read back
        raise InputError(f"{name}: got a number beyond 2^64, expected a smaller one")
    if (
        (least is not None and not value >= least)
        or (above is not None and not value > above)
        or (below is not None and not value < below)
    ):
        raise InputError(f"{name}: got {value}, expected {_range_text(least, above, below)}")


def _range_text(least: float | None, above: float | None, below: float | None) -> str:
    if least is not None and below is not None:
        return f"{least:g} up to, but less than, {below:g}"
    if least is not None:
        return f"at least {least:g}"
    parts = [] if above is None else [f"more than {above:g}"]
    return " and ".join(parts + ([] if below is None else [f"less than {below:g}"]))
