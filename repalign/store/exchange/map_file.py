"""A fitted map as a file: safetensors with its description beside the arrays.

The file holds the tensors ``matrix`` (p×q) and ``shift`` (q), so that a row x is mapped to
x·matrix + shift, and one metadata entry ``repalign`` with JSON: ``format_version``, ``kind``,
``sha256`` (of both arrays) and ``metadata`` (where the map comes from). Any safetensors reader
can open it.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from repalign.aliases import FloatArray
from repalign.exceptions import StoreError
from repalign.files import check_regular, writing

FORMAT_VERSION = 1
METADATA_KEY = "repalign"


@dataclass(frozen=True, eq=False)
class SavedMap:
    """The affine map x ↦ x·matrix + shift, what kind it is and where it comes from."""

    kind: str
    matrix: FloatArray
    shift: FloatArray
    metadata: Mapping[str, Any] = field(default_factory=dict)


def save_map(saved: SavedMap, path: str | Path, *, overwrite: bool = False) -> None:
    """Write a map; the file appears only when it is whole.

    Raises:
        StoreError: the file exists and is not to be replaced, or the arrays are no affine map.
    """
    from safetensors.numpy import save_file

    target = Path(path)
    matrix = np.ascontiguousarray(saved.matrix, dtype=np.float64)
    shift = np.ascontiguousarray(saved.shift, dtype=np.float64)
    _check_arrays(matrix, shift, str(target))
    description = {
        "format_version": FORMAT_VERSION,
        "kind": saved.kind,
        "sha256": _digest(matrix, shift),
        "metadata": dict(saved.metadata),
    }
    with writing(target, overwrite=overwrite, failure=StoreError) as whole:
        save_file(
            {"matrix": matrix, "shift": shift},
            whole,
            metadata={METADATA_KEY: json.dumps(description)},
        )


def load_map(path: str | Path) -> SavedMap:
    """Read a map that ``save_map`` wrote.

    Raises:
        StoreError: there is no such file, it is no map, of another version, or damaged.
    """
    from safetensors import SafetensorError, safe_open

    source = Path(path)
    check_regular(source, failure=StoreError)
    try:
        with safe_open(source, framework="np") as file:
            names = set(file.keys())
            text = (file.metadata() or {}).get(METADATA_KEY)
            if text is None or names != {"matrix", "shift"}:
                raise StoreError(
                    f"{source}: holds {', '.join(sorted(names)) or 'nothing'} and is no map of "
                    "repalign; expected the tensors matrix and shift and their description"
                )
            matrix, shift = file.get_tensor("matrix"), file.get_tensor("shift")
    except SafetensorError as error:
        raise StoreError(
            f"{source}: is no whole safetensors file ({error}); save it again"
        ) from error
    description = _read_description(text, source)
    _check_arrays(matrix, shift, str(source))
    if description["sha256"] != _digest(matrix, shift):
        raise StoreError(f"{source}: its checksum does not fit its arrays; save it again")
    return SavedMap(description["kind"], matrix, shift, description["metadata"])


def _read_description(text: str, source: Path) -> dict[str, Any]:
    try:
        description = json.loads(text)
    except json.JSONDecodeError as error:
        raise StoreError(
            f"{source}: its description is not JSON ({error}); save it again"
        ) from error
    version = description.get("format_version") if isinstance(description, dict) else None
    if version != FORMAT_VERSION:
        raise StoreError(
            f"{source}: is a map of format version {version}; this repalign reads version "
            f"{FORMAT_VERSION}: update repalign or save the map again"
        )
    missing = {"kind", "sha256", "metadata"} - description.keys()
    if missing:
        raise StoreError(f"{source}: its description lacks {', '.join(sorted(missing))}")
    return description


def _check_arrays(matrix: FloatArray, shift: FloatArray, name: str) -> None:
    if matrix.ndim != 2 or shift.shape != matrix.shape[1:]:
        raise StoreError(
            f"{name}: matrix has shape {matrix.shape} and shift {shift.shape}; expected p×q and q"
        )
    if not (np.isfinite(matrix).all() and np.isfinite(shift).all()):
        raise StoreError(f"{name}: the map has values that are not finite; fit it again")


def _digest(matrix: FloatArray, shift: FloatArray) -> str:
    digest = hashlib.sha256(np.ascontiguousarray(matrix).tobytes())
    digest.update(np.ascontiguousarray(shift).tobytes())
    return digest.hexdigest()
