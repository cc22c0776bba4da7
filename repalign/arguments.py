"""What public functions are given: of the kind that their annotations say, or an InputError.

``checked`` is for the functions that users call. It looks at paths, truths, choices, texts,
numbers, dictionaries, functions and classes, before anything is done; what arrays, factors or ids
may be, the functions themselves know, and what annotations in quotes say.
"""

import errno
import functools
import inspect
import os
import sys
import types
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin

from repalign.exceptions import InputError

P = ParamSpec("P")
R = TypeVar("R")

NOUNS = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a text",
    Mapping: "a dictionary",
    Callable: "a function",
}
_CONTAINERS = (Mapping, Callable)
_SHOWN = 40
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Return the function, which refuses arguments of another kind than it says.

    Raises:
        InputError: An argument is of another kind; the message names it.
    """
    check = argument_checker(function)

    @functools.wraps(function)
    def checking(*args: P.args, **kwargs: P.kwargs) -> R:
        check(args, kwargs)
        return function(*args, **kwargs)

    return checking


def argument_checker(
    function: Callable[..., Any],
) -> Callable[[tuple[Any, ...], Mapping[str, Any]], None]:
    """Return what checks the arguments of a call against the annotations of a function."""
    signature = inspect.signature(function)
    hints = {
        name: each.annotation
        for name, each in signature.parameters.items()
        if each.kind in _NAMED and not _is_left(each.annotation)
    }

    def check(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        try:
            values = signature.bind(*args, **kwargs).arguments
        except TypeError:  # which the function itself says better
            return
        for name, hint in hints.items():
            if name in values:
                check_argument(name, values[name], hint)

    return check


def _is_left(annotation: Any) -> bool:
    """Tell whether an annotation is none, or in quotes."""
    return annotation is inspect.Parameter.empty or isinstance(annotation, str)


def check_argument(name: str, value: Any, hint: Any) -> None:
    """Check one argument against its annotation, where that is of a kind that is looked at.

    Raises:
        InputError: It is of another kind.
    """
    allowed = set(get_args(hint)) if get_origin(hint) in (Union, types.UnionType) else {hint}
    if value is None and type(None) in allowed:
        return
    if bool in allowed and is_a(value, "numpy", "bool_"):  # nothing is recorded of a flag
        return
    allowed.discard(type(None))
    if allowed == {str, Path}:
        check_path(name, value)
    elif len(allowed) == 1:
        check_kind(name, value, *allowed)


def check_kind(name: str, value: Any, kind: Any) -> None:
    """Check that a value is of a type, one of the choices of a Literal, or can be called.

    A whole number is a number; a truth is none; numpy's numbers are numbers.

    Raises:
        InputError: It is none.
    """
    origin = get_origin(kind)
    if origin is Literal:
        choices = get_args(kind)
        if not any(isinstance(value, type(each)) and value == each for each in choices):
            expected = f"one of: {', '.join(map(str, choices))}"
            raise InputError(f"{name}: got {_shown(value)}, expected {expected}")
    elif origin in _CONTAINERS or (isinstance(kind, type) and origin is None):
        plain = origin or kind
        if not _is_one(value, plain):
            noun = NOUNS.get(plain, plain.__name__)
            raise InputError(f"{name}: got {_shown(value)}, expected {noun}")
        if origin is Mapping:
            _check_entries(name, value, *get_args(kind))


def _check_entries(name: str, entries: Mapping[Any, Any], key_kind: Any, value_kind: Any) -> None:
    """Check keys and values of a dictionary whose annotation says what both are."""
    if Any in (key_kind, value_kind):
        return
    for key, value in entries.items():
        check_kind(f"{name}, key {_shown(key)}", key, key_kind)
        check_kind(f"{name}[{_shown(key)}]", value, value_kind)


def _is_one(value: Any, kind: type) -> bool:
    if kind not in (int, float):
        return isinstance(value, kind)
    if isinstance(value, bool):
        return False
    if isinstance(value, int) or (
        hasattr(type(value), "__index__") and not hasattr(value, "__len__")
    ):
        return True
    return kind is float and isinstance(value, float)


def check_path(name: str, value: Any) -> None:
    """Check that a value can be the name of a file.

    Raises:
        InputError: It is neither text nor a path, has a NUL, or is longer than a name can be.
    """
    if not isinstance(value, str | os.PathLike) or isinstance(os.fspath(value), bytes):
        raise InputError(f"{name}: got {_shown(value)}, expected a path")
    try:
        os.lstat(value)
    except ValueError as failure:
        raise InputError(f"{name}: got {_shown(value)}, expected a path without NUL") from failure
    except OSError as failure:
        if failure.errno == errno.ENAMETOOLONG:
            length = len(os.fsencode(value))
            raise InputError(
                f"{name}: got a name of {length} bytes, which is longer than a file's can be: "
                f"{_shown(value)}"
            ) from failure


def _shown(value: Any) -> str:
    """Return a short value as it is written, and the kind of any other."""
    if isinstance(value, str) and len(value) > _SHOWN:
        return f"{value[:_SHOWN]!r}…"
    if isinstance(value, int) and value.bit_length() > _SHOWN * 3:  # which repr may refuse
        return "a number of many digits"
    if value is None or isinstance(value, str | bool | int | float | os.PathLike):
        return repr(value) if not isinstance(value, os.PathLike) else repr(os.fspath(value))
    return type(value).__name__


def listed(name: str, values: Any, of: str, kind: Any = None) -> list[Any]:
    """Return values that are to be a list, and not one text or a dictionary.

    Args:
        name: Of the argument.
        values: The list.
        of: What it is to hold, for people.
        kind: What each is to be, as annotations say it.

    Raises:
        InputError: They are not a list, or one of them is of another kind.
    """
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise InputError(f"{name}: got {_shown(values)}, expected a list of {of}")
    found = list(values)
    if kind is not None:
        for value in found:
            check_argument(name, value, kind)
    return found


def is_a(value: object, module: str, kind: str) -> bool:
    """Tell the type of a value without importing the library it comes from."""
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(value, getattr(loaded, kind))
