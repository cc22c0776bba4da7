"""Tensors in ``.pt`` and ``.safetensors`` files, mapped into memory; no code of a file is run."""

import json
import re
import struct
import warnings
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from repalign.damage_errors import PICKLE_ERRORS, ZIP_ERRORS
from repalign.exceptions import InputError, reading
from repalign.store.formats.contents import (
    ID_NAMES,
    MAX_COLUMNS,
    ForeignMatrix,
    ForeignRequest,
    check_matrix_shape,
    choose_view,
    texts_of,
)
from repalign.store.rows import MappedRows

if TYPE_CHECKING:
    import torch

LAYERED_KEY = "feats"  # the platonic-rep layout: {"feats": (rows, layers, columns), …}
MAX_DEPTH = 3  # of containers in each other
IDS_KEY = "ids"  # of the metadata of safetensors: JSON list of ids
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


def read_torch(request: ForeignRequest) -> ForeignMatrix:
    """Open one matrix of a file of tensors: a tensor, or a mapping or list of them.

    The layout of platonic-rep, whose ``feats`` has one matrix per layer, has the views
    ``layer0``, ``layer1``, …; ``layer-1`` is the last one.
    """
    content = _load(request.path)
    tensors = _list_tensors(content)
    features = tensors.get(LAYERED_KEY)
    is_layered = features is not None and features.ndim == 3
    if features is not None and is_layered:
        content, tensors = None, _split_layers(features, path=request.path)
        last = re.fullmatch(r"layer-(\d{1,9})", request.view or "")
        if last is not None:
            request = replace(request, view=f"layer{features.shape[1] - int(last[1])}")
    ids, ids_from = _read_ids(request, content)
    view = choose_view(request, {name: tuple(tensor.shape) for name, tensor in tensors.items()})
    values, is_bfloat16 = tensor_values(tensors[view], label=f"{request.path}::{view}")
    return ForeignMatrix(
        view=view,
        raw=MappedRows.of(values, request.path),
        layout="platonic-rep features" if is_layered else "torch tensors",
        ids=ids,
        ids_from=ids_from,
        bfloat16=is_bfloat16,
    )


def tensor_values(tensor: "torch.Tensor", *, label: str) -> tuple[NDArray[Any], bool]:
    """Return a matrix without copying it, and whether it holds bfloat16 words.

    Raises:
        InputError: not dense, not a matrix, or larger than the memory behind it.
    """
    import torch

    if tensor.is_meta:
        raise InputError(f"{label}: is a meta tensor, which has no values; save a real one")
    if tensor.layout is not torch.strided or tensor.is_quantized:
        kind = "quantised" if tensor.is_quantized else "sparse"
        raise InputError(f"{label}: is a {kind} tensor; save it dense (to_dense or dequantize)")
    check_matrix_shape(tensor.shape, label=label)
    if tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
        raise InputError(
            f"{label}: claims {tuple(tensor.shape)} values and holds "
            f"{tensor.untyped_storage().nbytes()} bytes; save tensor.contiguous()"
        )
    values = tensor.detach().cpu()
    is_bfloat16 = values.dtype is torch.bfloat16
    if is_bfloat16:
        values = values.view(torch.uint16)
    try:
        return values.numpy(), is_bfloat16
    except TypeError as error:
        raise InputError(
            f"{label}: has values of type {tensor.dtype}; save it as float32"
        ) from error


def _load(path: Path) -> Any:
    """Load what a file holds; the tensors of an archive are mapped where they lie.

    Raises:
        InputError: it holds other things than plain tensors, or is not as torch writes it.
    """
    import torch

    members: list[zipfile.ZipInfo] = []
    with reading(path, *ZIP_ERRORS, problem="not a readable torch file"):
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                members = archive.infolist()
    if any(info.compress_type for info in members):  # torch would map the packed bytes
        raise InputError(
            f"{path}: is a compressed archive, which torch does not write; unpack it and save the "
            "tensors again with torch.save"
        )
    # torch's own advice is to load without the safeguard, which runs the code of a file: it is
    # not passed on
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # on what it checks, for sparse tensors
            content = torch.load(path, map_location="cpu", weights_only=True, mmap=bool(members))
    except PICKLE_ERRORS as error:
        raise InputError(
            f"{path}: holds no plain tensors ({type(error).__name__} while reading it with "
            "weights_only); save a tensor or a dict of tensors"
        ) from error
    if members:
        _check_stored(content, sum(info.file_size for info in members), path=path)
    return content


def _check_stored(content: Any, n_stored: int, *, path: Path) -> None:
    """Check that tensors hold no more bytes than their archive, which torch does not compare."""
    import torch

    sizes = {
        tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes()
        for tensor in _list_tensors(content).values()
        if tensor.layout is torch.strided and not tensor.is_meta
    }
    if sum(sizes.values()) > n_stored:
        raise InputError(
            f"{path}: claims {sum(sizes.values())} bytes of values and holds {n_stored}; save the "
            "tensors again with torch.save"
        )


def _list_tensors(content: Any) -> dict[str, "torch.Tensor"]:
    """Return the tensors of at least one dimension, by name; nested names joined by a dot.

    A container that stands in several places is read once: a small file may name it for ever.
    """
    import torch

    tensors: dict[str, torch.Tensor] = {}
    waiting: list[tuple[tuple[str, ...], Any]] = [((), content)]
    seen = set()
    while waiting:
        names, value = waiting.pop()
        if isinstance(value, torch.Tensor) and value.ndim:
            tensors[".".join(names) or "tensor"] = value
        if not isinstance(value, Mapping | list | tuple) or len(names) == MAX_DEPTH:
            continue
        if id(value) not in seen:
            seen.add(id(value))
            members = value.items() if isinstance(value, Mapping) else enumerate(value)
            waiting += reversed([((*names, str(key)), member) for key, member in members])
    return tensors


def _split_layers(features: "torch.Tensor", *, path: Path) -> dict[str, "torch.Tensor"]:
    """Return the layers of features of rows × layers × columns, by name."""
    n_layers = features.shape[1]
    if n_layers > MAX_COLUMNS:
        raise InputError(f"{path}: has {n_layers} layers; at most {MAX_COLUMNS} are read")
    return {f"layer{number}": features[:, number] for number in range(n_layers)}


def _read_ids(request: ForeignRequest, content: Any) -> tuple[list[str] | None, str]:
    """Return the list of ids of a mapping, and where it stands."""
    if not isinstance(content, Mapping):
        return None, ""
    names = ID_NAMES if request.id_column is None else (request.id_column,)
    name = next((name for name in names if isinstance(content.get(name), list | tuple)), None)
    if name is None and request.id_column is not None:
        raise InputError(
            f"{request.path}: has no list {request.id_column!r} of ids; "
            f"it has {', '.join(str(key) for key in content)}"
        )
    if name is None:
        return None, ""
    label = f"{request.path}::{name}"
    return texts_of(content[name], label=label), label


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
    ids = _parse_ids(metadata.get(ids_name), label=ids_label)
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


def _parse_ids(text: str | None, *, label: str) -> list[str] | None:
    if text is None:
        return None
    try:
        ids = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{label}: not JSON; expected a list of ids") from error
    if not isinstance(ids, list) or not all(isinstance(value, str) for value in ids):
        raise InputError(f"{label}: not a list of texts; expected one id per row")
    return ids
