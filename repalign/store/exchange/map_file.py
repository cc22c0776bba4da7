"""A fitted map as a file: safetensors with its description beside the arrays.

The file holds the tensors ``matrix`` (p×q) and ``shift`` (q), so that a row x is mapped to
x·matrix + shift, and one metadata entry ``repalign`` with JSON: ``format_version``, ``kind``,
``metadata`` (where the map comes from) and ``sha256``, of the canonical JSON of kind, metadata and
both arrays (shape, type and sha256 of each); in version 1, which is still read, of the arrays
alone. Any safetensors reader can open it.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from repalign.aliases import FloatArray
from repalign.exceptions import StoreError
from repalign.files import check_regular, writing
from repalign.store.format.layout import take
from repalign.store.format.sealed_json import canonical_json, parse_json, sha256_of

FORMAT_VERSION = 2
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
    from safetensors.numpy import save

    target = Path(path)
    matrix = np.ascontiguousarray(saved.matrix, dtype=np.float64)
    shift = np.ascontiguousarray(saved.shift, dtype=np.float64)
    _check_arrays(matrix, shift, str(target))
    description = {
        "format_version": FORMAT_VERSION,
        "kind": saved.kind,
        "metadata": dict(saved.metadata),
    }
    description["sha256"] = _seal(description, matrix, shift)
    content = save({"matrix": matrix, "shift": shift}, {METADATA_KEY: canonical_json(description)})
    with writing(target, overwrite=overwrite, failure=StoreError) as whole:
        whole.write_bytes(content)  # in the mode that every other file gets


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
    if description["sha256"] != _seal(description, matrix, shift):
        raise StoreError(f"{source}: its checksum does not fit its content; save it again")
    return SavedMap(description["kind"], matrix, shift, description["metadata"])


def _read_description(text: str, source: Path) -> dict[str, Any]:
    description = parse_json(text.encode("utf-8", errors="surrogatepass"), f"{source}: description")
    version = description.get("format_version")
    if version not in (1, FORMAT_VERSION):
        raise StoreError(
            f"{source}: is a map of format version {version!r:.40}; this repalign reads versions "
            f"1 to {FORMAT_VERSION}: update repalign or save the map again"
        )
    for name, kind in (("kind", str), ("sha256", str), ("metadata", dict)):
        take(description, name, kind, str(source))
    return description


def _check_arrays(matrix: FloatArray, shift: FloatArray, name: str) -> None:
    if matrix.ndim != 2 or shift.shape != matrix.shape[1:] or not matrix.size:
        raise StoreError(
            f"{name}: matrix has shape {matrix.shape} and shift {shift.shape}; expected p×q and q"
        )
    if {matrix.dtype.kind, shift.dtype.kind} != {"f"}:
        raise StoreError(f"{name}: has values of {matrix.dtype} and {shift.dtype}; expected floats")
    if not (np.isfinite(matrix).all() and np.isfinite(shift).all()):
        raise StoreError(f"{name}: the map has values that are not finite; fit it again")


def _seal(description: Mapping[str, Any], matrix: FloatArray, shift: FloatArray) -> str:
    """Return the checksum of a map."""
    arrays = [np.ascontiguousarray(array) for array in (matrix, shift)]
    if description["format_version"] == 1:
        return hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()
    sealed = {name: value for name, value in description.items() if name != "sha256"}
    sealed["arrays"] = [
        [list(array.shape), array.dtype.str, hashlib.sha256(array.tobytes()).hexdigest()]
        for array in arrays
    ]
    return sha256_of(canonical_json(sealed))
