"""Results of units as bytes and back: arrays, numbers and texts, nothing that could run."""

import io
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any

import numpy as np

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
        ValueError, KeyError, OSError, TypeError: These bytes are none.
    """
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return _made(json.loads(arrays[TREE].tobytes()), arrays)


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


def _made(told: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    if not isinstance(told, dict):
        return told
    if ARRAY in told:
        return arrays[told[ARRAY]]
    if TUPLE in told:
        return tuple(_made(each, arrays) for each in told[TUPLE])
    if MAPPING in told:
        return {key: _made(each, arrays) for key, each in told[MAPPING]}
    if "value" in told:
        return known_classes()[told[CLASS]](told["value"])
    held = {name: _made(each, arrays) for name, each in told["of"].items()}
    return known_classes()[told[CLASS]](**held)
