"""Tensors in ``.safetensors`` files, mapped into memory."""

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np

from repalign.exceptions import InputError, reading
from repalign.store.foreign.contents import (
    ForeignMatrix,
    ForeignRequest,
    check_matrix_shape,
    choose_view,
)
from repalign.store.rows.mapped import MappedRows

# safetensors names for the types that numpy can hold; all little endian
TYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": "<u2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "u1",
    "BOOL": "?",
}
IDS_KEY = "ids"  # of the metadata: JSON list of ids


def read_safetensors(request: ForeignRequest) -> ForeignMatrix:
    """Open one matrix of a ``.safetensors`` file; ids are a JSON list in the metadata ``ids``."""
    header, data_start = _read_header(request.path)
    metadata = header.pop("__metadata__", None) or {}
    view = choose_view(request, {name: tuple(entry["shape"]) for name, entry in header.items()})
    label = f"{request.path}::{view}"
    entry = header[view]
    if entry["dtype"] not in TYPES:
        raise InputError(f"{label}: has values of type {entry['dtype']}; save it as F32")
    values = np.memmap(
        request.path,
        dtype=np.dtype(TYPES[entry["dtype"]]),
        mode="r",
        offset=data_start + int(entry["data_offsets"][0]),
        shape=check_matrix_shape(entry["shape"], label=label),
    )
    ids_name = request.id_column or IDS_KEY
    ids_label = f"{request.path} (metadata {ids_name!r})"
    ids = _ids(metadata.get(ids_name), label=ids_label)
    if ids is None and request.id_column is not None:
        raise InputError(
            f"{request.path}: has no metadata {ids_name!r}; expected a JSON list of ids there"
        )
    return ForeignMatrix(
        view=view,
        raw=MappedRows.of(values, request.path),
        layout="safetensors",
        ids=ids,
        ids_from="" if ids is None else ids_label,
        bfloat16=entry["dtype"] == "BF16",
    )


def _read_header(path: Path) -> tuple[dict[str, Any], int]:
    """Return the header, which safetensors itself has checked, and where the values start."""
    from safetensors import SafetensorError, safe_open

    with (
        reading(path, SafetensorError, OSError, problem="not a readable safetensors file"),
        safe_open(path, framework="numpy"),
    ):
        pass  # offsets, overlaps and sizes are checked when the file is opened
    with path.open("rb") as stream:
        (length,) = struct.unpack("<Q", stream.read(8))
        header = json.loads(stream.read(length))
    return header, 8 + length


def _ids(text: str | None, *, label: str) -> list[str] | None:
    if text is None:
        return None
    try:
        ids = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{label}: is no JSON; expected a list of ids") from error
    if not isinstance(ids, list) or not all(isinstance(value, str) for value in ids):
        raise InputError(f"{label}: is no list of texts; expected one id per row")
    return ids
