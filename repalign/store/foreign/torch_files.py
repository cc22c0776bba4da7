"""Tensors in ``.pt`` and ``.pth`` files, loaded with ``weights_only`` and never otherwise."""

import warnings
import zipfile
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from repalign.exceptions import InputError
from repalign.rows import ArrayRows
from repalign.store.foreign.contents import (
    ID_NAMES,
    ForeignMatrix,
    ForeignRequest,
    check_matrix_shape,
    choose_view,
    texts_of,
)
from repalign.store.foreign.damage import DAMAGE

if TYPE_CHECKING:
    import torch

LAYERED_KEY = "feats"  # the platonic-rep layout: {"feats": (rows, layers, columns), …}


def read_torch(request: ForeignRequest) -> ForeignMatrix:
    """Open one matrix of a file of tensors: a tensor, or a mapping or list of them.

    The layout of platonic-rep, whose ``feats`` has one matrix per layer, has the views
    ``layer0``, ``layer1``, …; ``layer-1`` is the last one.
    """
    found = _load(request)
    tensors = _tensors(found)
    layers = _layers(tensors)
    if layers:
        return _open_layer(request, layers)
    ids, ids_from = _ids(request, found)
    view = choose_view(request, {name: tuple(tensor.shape) for name, tensor in tensors.items()})
    return _matrix(request, view, tensors[view], layout="torch tensors", ids=ids, ids_from=ids_from)


def tensor_rows(tensor: "torch.Tensor", *, label: str) -> tuple[ArrayRows, bool]:
    """Return the rows of a tensor without copying it, and whether they are bfloat16 words.

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
        return ArrayRows(values.numpy()), is_bfloat16
    except TypeError as error:
        raise InputError(
            f"{label}: has values of type {tensor.dtype}; save it as float32"
        ) from error


def _load(request: ForeignRequest) -> Any:
    import torch

    # torch's own advice is to load without the safeguard, which runs the code of a file: it is
    # not passed on
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # on what it checks, for sparse tensors
            return torch.load(
                request.path,
                map_location="cpu",
                weights_only=True,
                mmap=zipfile.is_zipfile(request.path),  # the old format cannot be mapped
            )
    except DAMAGE as error:
        raise InputError(
            f"{request.path}: holds no plain tensors ({type(error).__name__} while reading it with "
            "weights_only); save a tensor or a dict of tensors"
        ) from error


def _tensors(found: Any, prefix: str = "") -> dict[str, "torch.Tensor"]:
    """Return the tensors of at least one dimension, by name; nested names joined by a dot."""
    import torch

    if isinstance(found, torch.Tensor):
        return {prefix or "tensor": found} if found.ndim else {}
    if isinstance(found, Mapping):
        items = [(str(key), value) for key, value in found.items()]
    elif isinstance(found, Sequence) and not isinstance(found, str | bytes):
        items = [(str(place), value) for place, value in enumerate(found)]
    else:
        return {}
    if prefix.count(".") > 1:
        return {}
    tensors: dict[str, torch.Tensor] = {}
    for name, value in items:
        tensors |= _tensors(value, f"{prefix}.{name}" if prefix else name)
    return tensors


def _layers(tensors: Mapping[str, "torch.Tensor"]) -> list["torch.Tensor"]:
    """Return one matrix per layer if the file has the platonic-rep layout, else nothing."""
    features = tensors.get(LAYERED_KEY)
    if features is None or features.ndim != 3:
        return []
    return [features[:, layer] for layer in range(features.shape[1])]


def _open_layer(request: ForeignRequest, layers: Sequence["torch.Tensor"]) -> ForeignMatrix:
    named = {f"layer{number}": layer for number, layer in enumerate(layers)}
    backwards = {f"layer-{len(layers) - number}": f"layer{number}" for number in range(len(layers))}
    wanted = backwards.get(request.view or "", request.view)
    request = ForeignRequest(request.path, view=wanted, id_column=request.id_column)
    view = choose_view(request, {name: tuple(layer.shape) for name, layer in named.items()})
    return _matrix(
        request, view, named[view], layout="platonic-rep features", ids=None, ids_from=""
    )


def _matrix(
    request: ForeignRequest,
    view: str,
    tensor: "torch.Tensor",
    *,
    layout: str,
    ids: list[str] | None,
    ids_from: str,
) -> ForeignMatrix:
    raw, is_bfloat16 = tensor_rows(tensor, label=f"{request.path}::{view}")
    return ForeignMatrix(
        view=view, raw=raw, layout=layout, ids=ids, ids_from=ids_from, bfloat16=is_bfloat16
    )


def _ids(request: ForeignRequest, found: Any) -> tuple[list[str] | None, str]:
    """Return the list of ids of a mapping, and where it stands."""
    if not isinstance(found, Mapping):
        return None, ""
    names = ID_NAMES if request.id_column is None else (request.id_column,)
    name = next((name for name in names if isinstance(found.get(name), list | tuple)), None)
    if name is None:
        if request.id_column is not None:
            raise InputError(
                f"{request.path}: has no list {request.id_column!r} of ids; "
                f"it has {', '.join(str(key) for key in found)}"
            )
        return None, ""
    label = f"{request.path}::{name}"
    return texts_of(found[name], label=label), label
