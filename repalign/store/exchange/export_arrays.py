"""Writers of numpy and safetensors files, block by block."""

import json
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from repalign.store.foreign.safetensors_files import TYPES
from repalign.store.joining.index import POOLED, decode_ids
from repalign.store.sources.source import EmbeddingSource, row_blocks

OnProgress = Callable[[int, int], None]

ARRAY_NAME = "embedding"
# npz members carry a date; a fixed one makes equal content equal files
ZIP_DATE = (1980, 1, 1, 0, 0, 0)


def write_npy(path: Path, source: EmbeddingSource, on_progress: OnProgress) -> None:
    """Write the values as a numpy array."""
    with path.open("xb") as stream:
        _write_array(stream, source, on_progress)


def write_npz(path: Path, source: EmbeddingSource, on_progress: OnProgress) -> None:
    """Write values, ids, token positions and hashes as a numpy archive, not compressed."""
    index = source.index
    beside: dict[str, NDArray[Any]] = {}
    if index.ids is not None:
        beside["ids"] = np.array(decode_ids(index.ids))
    if (index.token != POOLED).any():
        beside["token"] = index.token
    if index.sample_sha is not None:
        beside["sample_sha"] = index.sample_sha
    with zipfile.ZipFile(path, "x", zipfile.ZIP_STORED) as archive:
        for name, values in beside.items():
            with archive.open(_member(name), "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, values, allow_pickle=False)
        with archive.open(_member(ARRAY_NAME), "w", force_zip64=True) as stream:
            _write_array(stream, source, on_progress)


def write_safetensors(path: Path, source: EmbeddingSource, on_progress: OnProgress) -> None:
    """Write the values as one tensor of a safetensors file."""
    kind = _little_endian(source)
    names = {kind_name: name for name, kind_name in TYPES.items()}
    n_bytes = source.n_rows * source.dim * kind.itemsize
    header = {
        "__metadata__": {"format": "pt"},
        ARRAY_NAME: {
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
