"""A fitted map as a file: safetensors with its description next to the arrays.

The file holds the tensors ``matrix`` (p×q) and ``shift`` (q), so that a row x is mapped to
x·matrix + shift, and ``fitted_rows``, a hash of the identity of every row that fitted the map, so
that later comparisons know which rows are new to it. One metadata entry ``repalign`` holds JSON:
``format_version``, ``kind``, ``metadata`` (where the map comes from) and ``sha256``, of the
canonical JSON of kind, metadata and the arrays (shape, type and sha256 of each). Any safetensors
reader can open it.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repalign.aliases import FloatArray
from repalign.exceptions import StoreError, reading
from repalign.files import check_regular, writing
from repalign.store.digests import canonical_json, sha256_of
from repalign.store.header import parse_json, take

FORMAT_VERSION = 3
METADATA_KEY = "repalign"
ARRAYS = {"matrix", "shift", "fitted_rows"}


@dataclass(frozen=True, eq=False)
class SavedMap:
    """The affine map x ↦ x·matrix + shift, what kind it is and where it comes from.

    ``fitted_rows`` are hashes of the identities of the rows that fitted it (``key_hashes`` of
    their index).
    """

    kind: str
    matrix: FloatArray
    shift: FloatArray
    metadata: Mapping[str, Any] = field(default_factory=dict)
    fitted_rows: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """The tensors of the file, by name."""
        return {"matrix": self.matrix, "shift": self.shift, "fitted_rows": self.fitted_rows}


def save_map(saved: SavedMap, path: str | Path, *, overwrite: bool = False) -> None:
    """Write a map; the file appears only when it is whole.

    Raises:
        StoreError: the file exists and is not to be replaced, or the arrays are not an affine map.
    """
    from safetensors.numpy import save

    target = Path(path)
    types = {"matrix": np.float64, "shift": np.float64, "fitted_rows": np.uint64}
    arrays = {
        name: np.ascontiguousarray(values, dtype=types[name])
        for name, values in saved.arrays.items()
    }
    _check_arrays(arrays, str(target))
    description = {
        "format_version": FORMAT_VERSION,
        "kind": saved.kind,
        "metadata": dict(saved.metadata),
    }
    description["sha256"] = _seal(description, arrays)
    content = save(arrays, {METADATA_KEY: canonical_json(description)})
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
    problem = "not a whole safetensors file; save it again"
    with (
        reading(source, SafetensorError, failure=StoreError, problem=problem),
        safe_open(source, framework="np") as file,
    ):
        names = set(file.keys())
        text = (file.metadata() or {}).get(METADATA_KEY)
        if text is None or not {"matrix", "shift"} <= names:
            raise StoreError(
                f"{source}: not a map of repalign, it holds {', '.join(sorted(names))}; "
                "expected the tensors matrix, shift and fitted_rows and their description"
            )
        description = _read_description(text, source)
        if names != ARRAYS:
            raise StoreError(
                f"{source}: got the tensors {', '.join(sorted(names))}, expected "
                f"{', '.join(sorted(ARRAYS))}; save the map again"
            )
        arrays = {name: file.get_tensor(name) for name in ARRAYS}
    _check_arrays(arrays, str(source))
    if description["sha256"] != _seal(description, arrays):
        raise StoreError(f"{source}: its checksum does not fit its content; save it again")
    return SavedMap(description["kind"], metadata=description["metadata"], **arrays)


def _read_description(text: str, source: Path) -> dict[str, Any]:
    description = parse_json(text.encode("utf-8", errors="surrogatepass"), f"{source}: description")
    version = description.get("format_version")
    if version != FORMAT_VERSION:
        raise StoreError(
            f"{source}: got a map of format version {version!r:.40}, expected version "
            f"{FORMAT_VERSION}; save the map again with this version of repalign"
        )
    for name, kind in (("kind", str), ("sha256", str), ("metadata", dict)):
        take(description, name, kind, str(source))
    return description


def _check_arrays(arrays: Mapping[str, np.ndarray], name: str) -> None:
    matrix, shift, fitted_rows = (arrays[key] for key in ("matrix", "shift", "fitted_rows"))
    if matrix.ndim != 2 or shift.shape != matrix.shape[1:] or not matrix.size:
        raise StoreError(
            f"{name}: matrix has shape {matrix.shape} and shift {shift.shape}; expected p×q and q"
        )
    if {matrix.dtype.kind, shift.dtype.kind} != {"f"}:
        raise StoreError(f"{name}: has values of {matrix.dtype} and {shift.dtype}; expected floats")
    if fitted_rows.ndim != 1 or fitted_rows.dtype != np.uint64:
        raise StoreError(f"{name}: fitted_rows has type {fitted_rows.dtype}; expected uint64")
    if not (np.isfinite(matrix).all() and np.isfinite(shift).all()):
        raise StoreError(f"{name}: the map has values that are not finite; fit it again")


def _seal(description: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> str:
    """Return the checksum of a map."""
    sealed = {name: value for name, value in description.items() if name != "sha256"}
    sealed["arrays"] = [
        [name, list(array.shape), array.dtype.str, hashlib.sha256(array.tobytes()).hexdigest()]
        for name, array in sorted(arrays.items())
    ]
    return sha256_of(canonical_json(sealed))
