"""Results of units as bytes and back: arrays, numbers and texts, nothing that could run."""

import io
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any

import numpy as np

from repalign.damage_errors import NPY_ERRORS, ZIP_ERRORS
from repalign.exceptions import first_line

TREE = "tree"
TUPLE, MAPPING, ARRAY, CLASS = "t", "m", "a", "c"


@cache
def known_classes() -> dict[str, type]:
    """Return what results are made of, by name; anything else is neither written nor read."""
    from repalign.core.errors.diameter import Diameter
    from repalign.core.ica.components import IcaFit
    from repalign.core.ica.settings import IcaSettings
    from repalign.core.inference.jackknife import GroupCount, Replicates
    from repalign.core.inference.maximum import Draws
    from repalign.core.maps.affine import AffineMap
    from repalign.core.moments import PairMoments
    from repalign.workflows.compare.pair import PairResult
    from repalign.workflows.compare.results import ErrorRecord, IcaReport, PairReport
    from repalign.workflows.compare.similarity.records import MeasureRecord
    from repalign.workflows.compare.spaces import Spread
    from repalign.workflows.study.resampled import Resampled

    classes = (
        *(PairMoments, Spread, Diameter, IcaFit, IcaSettings, AffineMap),
        *(PairResult, ErrorRecord, MeasureRecord, PairReport, IcaReport),
        *(Resampled, Draws, Replicates, GroupCount),
    )
    return {each.__name__: each for each in classes}


def encode(value: Any) -> bytes:
    """Return a result as bytes.

    Raises:
        TypeError: It holds something that is no known class.
    """
    arrays: dict[str, np.ndarray] = {}
    tree = json.dumps(_told(value, arrays)).encode()
    stream = io.BytesIO()
    np.savez(stream, **{TREE: np.frombuffer(tree, dtype=np.uint8)}, **arrays)  # type: ignore[arg-type]
    return stream.getvalue()


def decode(content: bytes) -> Any:
    """Return the result of ``encode``, equal to the last bit.

    Raises:
        DamagedUnitError: These bytes are none.
    """
    try:
        stored = np.load(io.BytesIO(content), allow_pickle=False)
        arrays = dict(stored) if isinstance(stored, np.lib.npyio.NpzFile) else {}
    except (*NPY_ERRORS, *ZIP_ERRORS) as error:
        raise DamagedUnitError(first_line(error)) from error
    if TREE not in arrays:
        raise DamagedUnitError("it does not say what it holds")
    try:
        tree = json.loads(arrays.pop(TREE).tobytes())
    except (ValueError, RecursionError) as error:
        raise DamagedUnitError(first_line(error)) from error
    return _made(tree, arrays)


class DamagedUnitError(ValueError):
    """Bytes that do not hold the result of a unit."""


def _told(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    if isinstance(value, np.ndarray):
        name = f"{ARRAY}{len(arrays)}"
        arrays[name] = value
        return {ARRAY: name}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Enum) and type(value).__name__ in known_classes():
        return {CLASS: type(value).__name__, "value": value.value}
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, tuple | list):
        return {TUPLE: [_told(each, arrays) for each in value]}
    if isinstance(value, Mapping):
        return {MAPPING: [[str(key), _told(each, arrays)] for key, each in value.items()]}
    if is_dataclass(value) and type(value).__name__ in known_classes():
        held = {each.name: _told(getattr(value, each.name), arrays) for each in fields(value)}
        return {CLASS: type(value).__name__, "of": held}
    raise TypeError(f"{type(value).__name__} is no part of a result that can be kept")


def _made(tree: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    if not isinstance(tree, dict):
        return tree
    if ARRAY in tree:
        return _member(arrays, tree[ARRAY])
    if TUPLE in tree:
        return tuple(_made(member, arrays) for member in _list(tree[TUPLE]))
    if MAPPING in tree:
        pairs = [_list(pair, 2) for pair in _list(tree[MAPPING])]
        return {str(key): _made(value, arrays) for key, value in pairs}
    kind = _member(known_classes(), tree.get(CLASS))
    if issubclass(kind, Enum):
        return _member({member.value: member for member in kind}, tree.get("value"))
    values = tree.get("of")
    if not isinstance(values, dict) or set(values) != {field.name for field in fields(kind)}:
        raise DamagedUnitError(f"it holds no {kind.__name__}")
    return kind(**{name: _made(value, arrays) for name, value in values.items()})


def _member(members: Mapping[Any, Any], name: object) -> Any:
    if not isinstance(name, str | int | float) or name not in members:
        raise DamagedUnitError(f"it names {name!r}, which is not there")
    return members[name]


def _list(value: object, length: int | None = None) -> list[Any]:
    if not isinstance(value, list) or length not in (None, len(value)):
        raise DamagedUnitError("it holds a list of another form")
    return value
