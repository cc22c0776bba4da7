"""Arrays in MATLAB ``.mat`` files of level 5 (``-v6``, ``-v7``), as thingsvision writes them.

Plain arrays of numbers are parsed here and everything else is passed over: general readers of
the format crash on damaged files. A file is a header of 128 bytes and a list of elements, each
with a tag of type and size; a matrix element holds flags, dimensions, a name and the numbers,
column by column, in a type that may be narrower than that of the array.
"""

import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repalign.exceptions import InputError
from repalign.store.foreign.contents import (
    ForeignMatrix,
    ForeignRequest,
    check_matrix_shape,
    choose_view,
)
from repalign.store.foreign.damage import refuse_damage
from repalign.store.rows.arrays import ArrayRows

HEADER_BYTES = 128
VERSION = 0x0100
MATRIX, COMPRESSED = 14, 15
# types of stored numbers, and classes of arrays, by their numbers in the format
STORED = {
    1: "i1",
    2: "u1",
    3: "i2",
    4: "u2",
    5: "i4",
    6: "u4",
    7: "f4",
    9: "f8",
    12: "i8",
    13: "u8",
}
CLASSES = {
    6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8",
}  # fmt: skip
COMPLEX_FLAG = 0x0800
MAX_FILE_BYTES = 2**34  # the format is read whole
MAX_VARIABLE_BYTES = 2**32
ROWS_VIEW = "features"


@dataclass(frozen=True)
class _Variable:
    """An array of numbers: its shape and type, and where its stored numbers are."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    stored: memoryview
    stored_type: np.dtype[Any]

    def values(self) -> NDArray[Any]:
        """Return the array, in its own type."""
        n_values = int(np.prod(self.shape, dtype=object))
        if len(self.stored) != n_values * self.stored_type.itemsize:
            raise ValueError(f"{len(self.stored)} bytes for {n_values} values")
        numbers = np.frombuffer(self.stored, self.stored_type)
        return numbers.reshape(self.shape, order="F").astype(self.dtype)


def read_matlab(request: ForeignRequest) -> ForeignMatrix:
    """Open one matrix of a ``.mat`` file, or the file that has one variable per row.

    In the second kind, which thingsvision writes, the names of the variables are the ids.
    """
    with refuse_damage(f"{request.path}: is no readable MATLAB file"):
        variables = dict(_read_variables(request.path))
        shapes = {name: variable.shape for name, variable in variables.items()}
        is_row_each = len(shapes) > 1 and all(
            len(shape) == 2 and shape[0] == 1 for shape in shapes.values()
        )
        if is_row_each and request.view is None and request.id_column is None:
            return _variable_per_row(request, variables)
        view = choose_view(request, shapes)
        check_matrix_shape(shapes[view], label=f"{request.path}::{view}")
        raw = ArrayRows(variables[view].values())
    return ForeignMatrix(view=view, raw=raw, layout="MATLAB file")


def _variable_per_row(request: ForeignRequest, variables: Mapping[str, _Variable]) -> ForeignMatrix:
    if len({variable.shape for variable in variables.values()}) > 1:
        raise InputError(
            f"{request.path}: has one variable per row, of different lengths; expected one length"
        )
    values = np.concatenate([variable.values() for variable in variables.values()])
    check_matrix_shape(values.shape, label=str(request.path))
    return ForeignMatrix(
        view=ROWS_VIEW,
        raw=ArrayRows(values),
        layout="MATLAB file, one variable per row",
        ids=list(variables),
        ids_from=f"{request.path} (names of the variables)",
    )


def _read_variables(path: Path) -> Iterator[tuple[str, _Variable]]:
    """Yield the arrays of numbers of a file by name."""
    if path.stat().st_size > MAX_FILE_BYTES:
        raise InputError(
            f"{path}: has {path.stat().st_size} bytes; MATLAB files are read up to "
            f"{MAX_FILE_BYTES}, save larger arrays as .npy"
        )
    data = memoryview(path.read_bytes())
    order = {b"IM": "<", b"MI": ">"}.get(bytes(data[126:HEADER_BYTES]))
    if order is None:
        raise ValueError("no header of level 5")
    (version,) = struct.unpack(f"{order}H", data[124:126])
    if version != VERSION:
        raise InputError(f"{path}: is a MATLAB file of version 7.3; save it with -v7 or as .npy")
    for kind, content in _elements(data[HEADER_BYTES:], order):
        if kind == COMPRESSED:
            inner = next(_elements(_unpack(content), order), None)
            if inner is None:
                raise ValueError("an empty compressed element")
            kind, content = inner
        if kind == MATRIX:
            yield from _parse_matrix(content, order)


def _unpack(content: memoryview) -> memoryview:
    """Return the content of a compressed element; zlib compares its checksum at the end."""
    stream = zlib.decompressobj()
    unpacked = stream.decompress(content, MAX_VARIABLE_BYTES)
    if not stream.eof:
        raise ValueError(f"a compressed element that is cut or above {MAX_VARIABLE_BYTES} bytes")
    return memoryview(unpacked)


def _elements(data: memoryview, order: str) -> Iterator[tuple[int, memoryview]]:
    """Yield type and content of consecutive elements."""
    at = 0
    while at < len(data):
        kind, size = struct.unpack(f"{order}II", data[at : at + 8])
        at += 8
        if kind >> 16:  # small element: size and type in four bytes, content in the other four
            kind, size, at = kind & 0xFFFF, kind >> 16, at - 4
            padded = 4
        else:
            padded = size if kind == COMPRESSED else -(-size // 8) * 8
        if size > padded or at + size > len(data):
            raise ValueError(f"an element of {size} bytes where {len(data) - at} are left")
        yield kind, data[at : at + size]
        at += padded


def _parse_matrix(content: memoryview, order: str) -> Iterator[tuple[str, _Variable]]:
    """Yield the array of a matrix element, unless it is text, cells, sparse or complex."""
    parts = _elements(content, order)
    (flags,) = struct.unpack(f"{order}I", _next(parts)[1][:4])
    if flags & 0xFF not in CLASSES or flags & COMPLEX_FLAG:
        return
    dimensions = np.frombuffer(_next(parts)[1], f"{order}i4").tolist()
    if len(dimensions) < 2 or min(dimensions) < 0:
        raise ValueError(f"dimensions {dimensions[:8]}")
    name = bytes(_next(parts)[1]).decode()
    kind, stored = _next(parts)
    if kind not in STORED:
        raise ValueError(f"values of type {kind} in {name[:64]!r}")
    dtype = np.dtype(order + CLASSES[flags & 0xFF])
    yield name, _Variable(tuple(dimensions), dtype, stored, np.dtype(order + STORED[kind]))


def _next(parts: Iterator[tuple[int, memoryview]]) -> tuple[int, memoryview]:
    found = next(parts, None)
    if found is None:
        raise ValueError("a matrix that ends too early")
    return found
