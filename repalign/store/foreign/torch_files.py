"""Tensors in ``.pt`` and ``.pth`` files, loaded with ``weights_only`` and never otherwise."""

import sys
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, cast

from repalign.aliases import Rows
from repalign.damage_errors import PICKLE_ERRORS, ZIP_ERRORS
from repalign.exceptions import InputError, reading
from repalign.expansion import check_copy
from repalign.rows import ArrayRows
from repalign.store.foreign.archives import data_start
from repalign.store.foreign.contents import (
    ID_NAMES,
    MAX_COLUMNS,
    ForeignMatrix,
    ForeignRequest,
    check_matrix_shape,
    choose_view,
    texts_of,
)
from repalign.store.rows.file import FileRows, open_file_rows
from repalign.store.rows.spool import BLOCK_BYTES, spool_blocks, transposed

if TYPE_CHECKING:
    import torch

LAYERED_KEY = "feats"  # the platonic-rep layout: {"feats": (rows, layers, columns), …}
MAX_DEPTH = 3  # of containers in each other
BYTE_ORDER = "byteorder"  # member of an archive
_NOT_TORCH = "not a readable torch file"


def read_torch(request: ForeignRequest) -> ForeignMatrix:
    """Open one matrix of a file of tensors: a tensor, or a mapping or list of them.

    The layout of platonic-rep, whose ``feats`` has one matrix per layer, has the views
    ``layer0``, ``layer1``, …; ``layer-1`` is the last one.
    """
    content = _load(request.path)
    tensors = _tensors(content)
    features = tensors.get(LAYERED_KEY)
    if features is not None and features.ndim == 3:
        return _open_layer(request, features)
    ids, ids_from = _ids(request, content)
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
        raise InputError(f"{label}: {_wrong_type(tensor)}") from error


def _load(path: Path) -> Any:
    """Load what a file holds; of an archive, the tensors without their values if torch can.

    Raises:
        InputError: It holds other things than plain tensors, or is not as torch writes it.
    """
    with reading(path, *ZIP_ERRORS, problem=_NOT_TORCH):
        is_archive = zipfile.is_zipfile(path)
    if not is_archive:
        return _load_to("cpu", path)  # the format before torch 1.6
    with _open_archive(path) as archive:
        _check_archive(path, archive)
    content = _load_to("meta", path)
    if content is None or any(_place(tensor) is None for tensor in _tensors(content).values()):
        return _load_to("cpu", path)
    return content


def _open_archive(path: Path) -> zipfile.ZipFile:
    with reading(path, *ZIP_ERRORS, problem=_NOT_TORCH):
        return zipfile.ZipFile(path)


def _check_archive(path: Path, archive: zipfile.ZipFile) -> None:
    """Check that an archive is one that torch writes: stored as it is, in this byte order."""
    members = archive.infolist()
    packed = next((info.filename for info in members if info.compress_type), None)
    if packed is not None:
        raise InputError(
            f"{path}: its member {packed!r} is compressed, which torch does not write; "
            "unpack the archive and save the tensors again with torch.save"
        )
    check_copy(path, sum(info.file_size for info in members), label=str(path))
    for info in members:
        if PurePosixPath(info.filename).name == BYTE_ORDER:
            with reading(path, *ZIP_ERRORS, problem=_NOT_TORCH):
                content = archive.read(info)
            order = content.decode(errors="replace")
            if order != sys.byteorder:
                raise InputError(
                    f"{path}: has values in {order!r} byte order, expected {sys.byteorder!r}; "
                    "save it again on a machine like this one"
                )


def _load_to(device: str, path: Path) -> Any:
    """Load a file; None where it holds tensors that a device cannot have."""
    import torch

    # torch's own advice is to load without the safeguard, which runs the code of a file: it is
    # not passed on
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # on what it checks, for sparse tensors
            return torch.load(path, map_location=device, weights_only=True)
    except NotImplementedError:
        return None  # sparse and quantised tensors are read into memory, and then refused
    except PICKLE_ERRORS as error:
        raise InputError(
            f"{path}: holds no plain tensors ({type(error).__name__} while reading it with "
            "weights_only); save a tensor or a dict of tensors"
        ) from error


def _place(tensor: "torch.Tensor") -> int | None:
    """Return where in the file the memory behind a tensor starts, None where torch does not say."""
    storage = tensor.untyped_storage() if tensor.is_meta else None
    return getattr(storage, "_checkpoint_offset", None)


def _tensors(content: Any) -> dict[str, "torch.Tensor"]:
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


def _open_layer(request: ForeignRequest, features: "torch.Tensor") -> ForeignMatrix:
    """Open one layer of features of rows × layers × columns."""
    n_rows, n_layers, n_columns = features.shape
    if n_layers > MAX_COLUMNS:
        raise InputError(f"{request.path}: has {n_layers} layers; at most {MAX_COLUMNS} are read")
    shapes = {f"layer{number}": (n_rows, n_columns) for number in range(n_layers)}
    backwards = {f"layer-{n_layers - number}": f"layer{number}" for number in range(n_layers)}
    wanted = backwards.get(request.view or "", request.view)
    request = ForeignRequest(request.path, view=wanted, id_column=request.id_column)
    view = choose_view(request, shapes)
    layer = features[:, int(view.removeprefix("layer"))]
    return _matrix(request, view, layer, layout="platonic-rep features", ids=None, ids_from="")


def _matrix(
    request: ForeignRequest,
    view: str,
    tensor: "torch.Tensor",
    *,
    layout: str,
    ids: list[str] | None,
    ids_from: str,
) -> ForeignMatrix:
    label = f"{request.path}::{view}"
    raw: Rows
    if _place(tensor) is None:
        raw, is_bfloat16 = tensor_rows(tensor, label=label)
    else:
        raw, is_bfloat16 = _file_rows(request.path, tensor, label=label)
    return ForeignMatrix(
        view=view, raw=raw, layout=layout, ids=ids, ids_from=ids_from, bfloat16=is_bfloat16
    )


def _file_rows(path: Path, tensor: "torch.Tensor", *, label: str) -> tuple[FileRows, bool]:
    """Return the rows of a tensor by their place in the file, and whether they are bfloat16 words.

    Raises:
        InputError: not a matrix, of a type without values here, or larger than what is stored.
    """
    import torch

    n_rows, n_columns = check_matrix_shape(tensor.shape, label=label)
    is_bfloat16 = tensor.dtype is torch.bfloat16
    kind = torch.uint16 if is_bfloat16 else tensor.dtype
    try:
        dtype = torch.empty(0, dtype=kind).numpy().dtype
    except TypeError as error:
        raise InputError(f"{label}: {_wrong_type(tensor)}") from error
    row_step, column_step = tensor.stride()
    column_step = 1 if n_columns == 1 else column_step
    # saved as x.T: what is consecutive in the file is a column
    is_turned = n_rows > 1 and column_step > max(row_step, 1)
    if is_turned:
        n_rows, n_columns, row_step, column_step = n_columns, n_rows, column_step, row_step
    width = (n_columns - 1) * column_step + 1
    first = int(tensor.storage_offset())
    _check_stored(path, tensor, first + (n_rows - 1) * row_step + width, label=label)
    rows = open_file_rows(
        path,
        shape=(n_rows, width),
        dtype=dtype,
        offset=cast("int", _place(tensor)) + first * dtype.itemsize,
        row_step=row_step * dtype.itemsize,
    )
    if column_step != 1:  # saved as x[:, ::2]
        rows = _every(rows, column_step, n_columns, label=label)
    return transposed(rows, label=label) if is_turned else rows, is_bfloat16


def _every(rows: FileRows, step: int, n_columns: int, *, label: str) -> FileRows:
    """Copy every so many columns to a temporary file."""
    n_rows, width = rows.shape
    block = max(1, BLOCK_BYTES // (width * rows.dtype.itemsize))
    return spool_blocks(
        (rows.read(start, start + block)[:, ::step] for start in range(0, n_rows, block)),
        n_rows=n_rows,
        n_columns=n_columns,
        dtype=rows.dtype,
        label=label,
    )


def _check_stored(path: Path, tensor: "torch.Tensor", n_values: int, *, label: str) -> None:
    """Check that the memory behind a tensor is a member of the archive, and long enough.

    Where it starts is computed by torch from how it writes archives, not read from this one.

    Raises:
        InputError: It is not; or fewer values are stored than the tensor has.
    """
    place = _place(tensor)
    with _open_archive(path) as archive:
        before = [info for info in archive.infolist() if info.header_offset < (place or 0)]
    member = max(before, key=lambda info: info.header_offset, default=None)
    if member is None or data_start(path, member) != place:
        raise InputError(f"{label}: is not where torch puts tensors; save it again with torch.save")
    # as many values as the shape says, even if it names some of them twice
    needed = max(n_values, tensor.numel()) * tensor.element_size()
    if needed > member.file_size:
        raise InputError(
            f"{label}: claims {tuple(tensor.shape)} values and holds {member.file_size} bytes; "
            "save tensor.contiguous()"
        )


def _wrong_type(tensor: "torch.Tensor") -> str:
    return f"has values of type {tensor.dtype}; save it as float32"


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
