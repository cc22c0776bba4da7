"""Stores from other files, and other files from stores."""

import csv
import json
import re
import struct
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast, get_args

import numpy as np
from numpy.typing import NDArray

from repalign.aliases import Rows
from repalign.arguments import checked
from repalign.exceptions import InputError, MissingExtraError
from repalign.files import check_output, file_sha256, protecting, writing
from repalign.store.format import VIEW_NAME, StoredDtype, WriteOptions
from repalign.store.formats.formats import ExportFormat
from repalign.store.formats.identifiers import bound_ids_text
from repalign.store.formats.tensors import TYPES
from repalign.store.index import POOLED, RowIndex, decode_ids
from repalign.store.open import IMPORTED, SIDECAR_SUFFIX, Embeddings, as_source, is_store
from repalign.store.reader import StoreInfo
from repalign.store.source import EmbeddingSource, fingerprint_of, row_blocks, values_root
from repalign.store.writer import write_store

MAX_VIEW_NAME = 64


@checked
def import_store(
    source: Embeddings,
    out: str | Path,
    *,
    view: str | None = None,
    licence: str | None = None,
    overwrite: bool = False,
    on_progress: Callable[[int, int], None] | None = None,
) -> StoreInfo:
    """Copy foreign embeddings to a store, in blocks and in their precision.

    The spec of the store records name and sha256 of the file, its layout and view, and what
    identifies the rows; rows that only have an order are still matched by order afterwards.

    Args:
        source: a path (``x.npz::view``), an array, a tensor, a frame, or what ``open_embeddings``
            and ``as_source`` return, which take ids.
        out: the store; one file if it ends in ``.h5``.
        view: name of the view in the store; by default that of the source, with other characters
            than letters, digits, ``_``, ``.`` and ``-`` replaced.
        licence: note on the terms of use.
        overwrite: replace what is there.
        on_progress: called with the rows written and their total.

    Raises:
        InputError: the source is a store already, a row is not finite, ``out`` is the source
            itself, or exists.
        StoreError: the store cannot be written.

    Example:
        >>> import numpy as np
        >>> np.savez("x.npz", emb=np.eye(3), ids=["a", "b", "c"])
        >>> import_store("x.npz", "x.h5").n_rows
        3
    """
    source = as_source(source)
    if source.path is not None and is_store(source.path):
        raise InputError(
            f"{source.path}: is a repalign store already; use it as it is, or pack or export it"
        )
    name = view or native_view_name(source.view)
    options = WriteOptions(
        dtype=stored_type(source.rows),
        licence=licence,
        expected_rows=source.n_rows,
    )
    with protecting([] if source.path is None else [source.path]):
        return write_store(
            out,
            {name: source.rows},
            index=source.index,
            spec={IMPORTED: provenance(source)},
            options=options,
            overwrite=overwrite,
            on_progress=on_progress,
        )


def native_view_name(view: str) -> str:
    """Return a name that a view of a store may have, as near to ``view`` as can be."""
    name = re.sub(r"[^A-Za-z0-9_.-]+", "_", view)[:MAX_VIEW_NAME]
    return name if VIEW_NAME.fullmatch(name) and name not in {".", ".."} else "embedding"


def provenance(source: EmbeddingSource) -> dict[str, Any]:
    """Return where a source comes from: names and hashes of its files, no directories."""
    return {
        "files": {} if source.path is None else _file_hashes(source.path),
        "layout": source.info.get("layout"),
        "view": source.view,
        "dtype": str(source.rows.dtype),
        "row_identity": source.identity,
        "ids_from": _without_directories(str(source.info.get("ids_from", "row order"))),
    }


def stored_type(rows: Rows) -> StoredDtype:
    """Return the name of the type of rows, which a store keeps exactly.

    Raises:
        InputError: a type that no store has.
    """
    name = rows.dtype.newbyteorder("=").name
    if name not in get_args(StoredDtype):
        raise InputError(f"values of type {name}; expected {', '.join(get_args(StoredDtype))}")
    return cast("StoredDtype", name)


def _file_hashes(path: Path) -> dict[str, str]:
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    top = path.parent if path.is_file() else path
    return {str(file.relative_to(top)): file_sha256(file) for file in files}


def _without_directories(ids_from: str) -> str:
    path, mark, column = ids_from.partition("::")
    return Path(path).name + mark + column if "/" in path else ids_from


OnProgress = Callable[[int, int], None]
WITHOUT_INDEX = {"npy", "safetensors"}
EMBEDDING = "embedding"  # name of the array, tensor or column of lists
ZIP_DATE = (1980, 1, 1, 0, 0, 0)  # of npz members: a fixed one makes equal content equal files
TEXT_BLOCK_BYTES = 2**20  # a number takes up to 128 bytes as text


@dataclass(frozen=True)
class ExportResult:
    """What was written.

    Args:
        path: the file.
        file_format: its format.
        n_rows: number of rows.
        dim: number of columns.
        ids_path: the file of ids next to it, where the format holds none itself.
        warnings: what of the rows' identity the format does not keep.
    """

    path: Path
    file_format: ExportFormat
    n_rows: int
    dim: int
    ids_path: Path | None
    warnings: tuple[str, ...]


@checked
def export_store(
    source: Embeddings,
    out: str | Path,
    *,
    file_format: ExportFormat | None = None,
    overwrite: bool = False,
    on_progress: OnProgress | None = None,
) -> ExportResult:
    """Write one view in a foreign format; the file appears when it is whole.

    npz, csv and parquet hold ids, token positions and hashes next to the values; npy and
    safetensors get their ids as lines of a file ``<name>.ids.txt``, which is found again when the
    embeddings are opened; its first line says to which values they belong, and that is checked.
    A pipe or device, ``-`` for standard output, gets no such file.

    Args:
        source: what to write: a path (``file::view``), an array, open embeddings, ….
        out: the file.
        file_format: by default the ending of ``out``.
        overwrite: replace existing files.
        on_progress: called with the rows written and their total.

    Raises:
        InputError: unknown format, or a file exists.
        MissingExtraError: parquet without pyarrow.

    Example:
        >>> import numpy as np, repalign
        >>> info = repalign.write_store("to-export.h5", np.eye(2), ids=["cat", "dog"])
        >>> export_store("to-export.h5", "exported.npz").n_rows
        2
        >>> with np.load("exported.npz") as arrays:
        ...     sorted(arrays)
        ['embedding', 'ids']
    """
    source, out = as_source(source), Path(out)
    format_name = _choose_format(out, file_format)
    ids_path, lines = None, ""
    report = on_progress or (lambda done, total: None)
    with protecting([] if source.path is None else [source.path]):
        is_file = check_output(out, overwrite=overwrite) is not None
        if format_name in WITHOUT_INDEX and source.index.ids is not None and is_file:
            ids_path, lines = out.with_name(out.stem + SIDECAR_SUFFIX), _id_lines(source)
            # exports of one set can share their ids
            is_same = ids_path.is_file() and ids_path.read_bytes() == lines.encode()
            check_output(ids_path, overwrite=overwrite or is_same)
        with writing(out) as whole:
            _WRITERS[format_name](whole, source, report)
        if ids_path is not None:
            with writing(ids_path) as whole:
                whole.write_text(lines, encoding="utf-8")
    return ExportResult(
        path=out,
        file_format=format_name,
        n_rows=source.n_rows,
        dim=source.dim,
        ids_path=ids_path,
        warnings=_list_losses(source.index, format_name, has_ids_beside=is_file),
    )


def _choose_format(out: Path, file_format: ExportFormat | None) -> ExportFormat:
    name = file_format or out.suffix.removeprefix(".").lower()
    for known in _WRITERS:
        if name == known:
            return known
    raise InputError(f"{out}: the format {name!r} is not written; choose {', '.join(_WRITERS)}")


def _id_lines(source: EmbeddingSource) -> str:
    """Return the text of the file of ids, which is bound to the values."""
    assert source.index.ids is not None, "called only where there are ids"
    ids = decode_ids(source.index.ids)
    broken = next((name for name in ids if "\n" in name or "\r" in name), None)
    if broken is not None:
        raise InputError(
            f"the id {broken!r} has a line break, which a file of lines cannot hold; export to "
            "npz or parquet"
        )
    return bound_ids_text(ids, fingerprint_of(source.rows, values_root(source.rows)))


def _list_losses(
    index: RowIndex, file_format: ExportFormat, *, has_ids_beside: bool
) -> tuple[str, ...]:
    if file_format not in WITHOUT_INDEX:
        return ()
    lost = []
    if index.ids is not None and not has_ids_beside:
        lost.append("ids")
    if (index.token != POOLED).any():
        lost.append("token positions")
    if index.sample_sha is not None:
        lost.append("input hashes")
    if not lost:
        return ()
    return (f"{file_format} does not keep {' and '.join(lost)}; npz, csv and parquet do",)


def _write_npy(path: Path, source: EmbeddingSource, on_progress: OnProgress) -> None:
    """Write the values as a numpy array."""
    with path.open("xb") as stream:
        _write_array(stream, source, on_progress)


def _write_npz(path: Path, source: EmbeddingSource, on_progress: OnProgress) -> None:
    """Write values, ids, token positions and hashes as a numpy archive, not compressed."""
    index = source.index
    identities: dict[str, NDArray[Any]] = {}
    if index.ids is not None:
        identities["ids"] = np.array(decode_ids(index.ids))
    if (index.token != POOLED).any():
        identities["token"] = index.token
    if index.sample_sha is not None:
        identities["sample_sha"] = index.sample_sha
    with zipfile.ZipFile(path, "x", zipfile.ZIP_STORED) as archive:
        for name, values in identities.items():
            with archive.open(_member(name), "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, values, allow_pickle=False)
        with archive.open(_member(EMBEDDING), "w", force_zip64=True) as stream:
            _write_array(stream, source, on_progress)


def _write_safetensors(path: Path, source: EmbeddingSource, on_progress: OnProgress) -> None:
    """Write the values as one tensor of a safetensors file."""
    kind = _little_endian(source)
    names = {kind_name: name for name, kind_name in TYPES.items()}
    n_bytes = source.n_rows * source.dim * kind.itemsize
    header = {
        "__metadata__": {"format": "pt"},
        EMBEDDING: {
            "dtype": names[kind.str],
            "shape": [source.n_rows, source.dim],
            "data_offsets": [0, n_bytes],
        },
    }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # values start at a multiple of eight bytes
    with path.open("xb") as stream:
        stream.write(struct.pack("<Q", len(text)) + text)
        _write_values(stream, source, on_progress)


def _member(name: str) -> zipfile.ZipInfo:
    return zipfile.ZipInfo(f"{name}.npy", date_time=ZIP_DATE)


def _little_endian(source: EmbeddingSource) -> np.dtype[Any]:
    return source.rows.dtype.newbyteorder("<")


def _write_array(stream: IO[bytes], source: EmbeddingSource, on_progress: OnProgress) -> None:
    header = {
        "descr": _little_endian(source).str,
        "fortran_order": False,
        "shape": (source.n_rows, source.dim),
    }
    np.lib.format.write_array_header_1_0(stream, header)
    _write_values(stream, source, on_progress)


def _write_values(stream: IO[bytes], source: EmbeddingSource, on_progress: OnProgress) -> None:
    kind = _little_endian(source)
    for start, block in row_blocks(source.rows):
        stream.write(np.ascontiguousarray(block, dtype=kind).tobytes())
        on_progress(start + len(block), source.n_rows)


def _write_csv(path: Path, source: EmbeddingSource, on_progress: OnProgress) -> None:
    """Write one line per row: ids, token positions and hashes, then ``e0``, ``e1``, ….

    Every number has the digits that give the same float again.
    """
    names = _identity_names(source.index)
    with path.open("x", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow([*names, *(f"e{column}" for column in range(source.dim))])
        for start, block in row_blocks(source.rows, TEXT_BLOCK_BYTES):
            stop = start + len(block)
            leading = _identity_values(source.index.slice(start, stop), names)
            # str of a numpy float has the fewest digits that tell it from its neighbours
            cells = block.astype(str).T.tolist()
            writer.writerows(zip(*leading, *cells, strict=True))
            on_progress(stop, source.n_rows)


def _write_parquet(path: Path, source: EmbeddingSource, on_progress: OnProgress) -> None:
    """Write ids, token positions and hashes as columns and the values as a column of lists.

    Raises:
        MissingExtraError: pyarrow is not installed.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingExtraError("pyarrow", extra="parquet", purpose=f"writing {path}") from error
    value_type = pa.from_numpy_dtype(source.rows.dtype)
    kinds = {"id": pa.string(), "token": pa.int32(), "sample_sha": pa.string()}
    names = _identity_names(source.index)
    list_type = pa.list_(value_type, source.dim)
    schema = pa.schema([*((name, kinds[name]) for name in names), (EMBEDDING, list_type)])
    with pq.ParquetWriter(path, schema) as writer:
        for start, block in row_blocks(source.rows):
            stop = start + len(block)
            columns = _identity_values(source.index.slice(start, stop), names)
            arrays = [
                pa.array(values, kinds[name]) for name, values in zip(names, columns, strict=True)
            ]
            flat = pa.array(np.ascontiguousarray(block).reshape(-1), value_type)
            arrays.append(pa.FixedSizeListArray.from_arrays(flat, source.dim))
            writer.write_batch(pa.record_batch(arrays, schema=schema))
            on_progress(stop, source.n_rows)


def _identity_names(index: RowIndex) -> list[str]:
    """Return which columns tell what the rows are; pooled rows need no token position."""
    known = {
        "id": index.ids is not None,
        "token": bool((index.token != POOLED).any()),
        "sample_sha": index.sample_sha is not None,
    }
    return [name for name, is_known in known.items() if is_known]


def _identity_values(index: RowIndex, names: Sequence[str]) -> list[list[Any]]:
    """Return the named columns as text and integers."""
    columns: dict[str, list[Any]] = {"token": index.token.tolist()}
    if index.ids is not None:
        columns["id"] = decode_ids(index.ids)
    if index.sample_sha is not None:
        columns["sample_sha"] = [value.tobytes().hex() for value in index.sample_sha]
    return [columns[name] for name in names]


_WRITERS: dict[ExportFormat, Callable[[Path, EmbeddingSource, OnProgress], None]] = {
    "npy": _write_npy,
    "npz": _write_npz,
    "csv": _write_csv,
    "parquet": _write_parquet,
    "safetensors": _write_safetensors,
}
