"""Values of a file checked against the types of the dataclasses that wrote them."""

import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from repalign.exceptions import InputError
from repalign.options import LARGEST_COUNT
from repalign.printable import printable

# Beyond these a value is damage, and drawing it would fail in ways that nobody can read.
LONGEST_TEXT = 10_000
LARGEST_NUMBER = 1e100
DEEPEST = 20
_NOUNS = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}


def typed(value: Any, hint: Any, where: str) -> Any:
    """Return a value of JSON as its type says; ``where`` names it in messages.

    A dataclass becomes a mapping of those of its fields that are there, since an older file has
    fewer of them; what else is there is left out.

    Raises:
        InputError: It is of another type, not finite, or beyond every measure.
    """
    hint, is_optional = _without_none(hint)
    if value is None and is_optional:
        return None
    if hint is Any:
        return _plain(value, where)
    if get_origin(hint) is Literal:
        if value not in get_args(hint):
            raise _unexpected(value, f"one of {', '.join(map(str, get_args(hint)))}", where)
        return value
    if hint in _NOUNS:
        return _single(value, hint, where)
    if isinstance(hint, type) and is_dataclass(hint):
        return typed_fields(value, field_types(hint), where)
    if get_origin(hint) is tuple:
        return _several(value, get_args(hint), where)
    assert issubclass(get_origin(hint), Mapping), f"{where}: no rule for {hint}"
    inner = get_args(hint)[1]
    return {
        key: typed(item, inner, f"{where}.{printable(key)[:60]}")
        for key, item in _mapping(value, where)
    }


def typed_fields(value: Any, hints: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return those entries of a mapping that have a type here, checked."""
    content = dict(_mapping(value, where))
    return {
        name: typed(content[name], hint, f"{where}: {name}")
        for name, hint in hints.items()
        if name in content
    }


def field_types(kind: type) -> dict[str, Any]:
    """Return the types of the fields of a dataclass, in order."""
    hints = get_type_hints(kind)
    return {each.name: hints[each.name] for each in fields(kind)}


def _without_none(hint: Any) -> tuple[Any, bool]:
    if get_origin(hint) not in (Union, types.UnionType):
        return hint, False
    inner = [part for part in get_args(hint) if part is not type(None)]
    assert len(inner) == 1, f"no rule for {hint}"
    return inner[0], True


def _single(value: Any, kind: Any, where: str) -> Any:
    if kind is float and type(value) is int:
        value = float(value) if abs(value) <= LARGEST_COUNT else value
    if type(value) is not kind:  # a truth is no number
        raise _unexpected(value, _NOUNS[kind], where)
    if kind is str and len(value) > LONGEST_TEXT:
        raise InputError(
            f"{where}: a text of {len(value)} letters, expected {LONGEST_TEXT} at most"
        )
    if kind is int and not 0 <= value <= LARGEST_COUNT:
        raise _unexpected(value, "a count", where)
    if kind is float and not abs(value) <= LARGEST_NUMBER:
        raise _unexpected(value, f"a number up to {LARGEST_NUMBER:g}", where)
    return value


def _several(value: Any, kinds: tuple[Any, ...], where: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise _unexpected(value, "a list", where)
    if kinds[-1] is Ellipsis:
        kinds = (kinds[0],) * len(value)
    if len(kinds) != len(value):
        raise InputError(f"{where}: got {len(value)} values, expected {len(kinds)}")
    return tuple(typed(item, kind, where) for item, kind in zip(value, kinds, strict=True))


def _plain(value: Any, where: str, depth: int = 0) -> Any:
    if depth > DEEPEST:
        raise InputError(f"{where}: nested more than {DEEPEST} times; the file is damaged")
    if isinstance(value, dict):
        return {key: _plain(item, where, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item, where, depth + 1) for item in value]
    if isinstance(value, str):
        return _single(value, str, where)
    if isinstance(value, float):
        return _single(value, float, where)
    return value


def _mapping(value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise _unexpected(value, "names with values", where)
    return value.items()


def _unexpected(value: Any, expected: str, where: str) -> InputError:
    got = repr(value) if isinstance(value, str | float | bool | None) else type(value).__name__
    return InputError(f"{where}: got {got[:60]}, expected {expected}; the file was changed")
