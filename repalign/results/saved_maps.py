"""Fitted maps as artefacts: saved from a result, inspected, inverted, applied to new rows."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from repalign.aliases import BoolArray
from repalign.arguments import checked
from repalign.comparison.pairs import encode_rows
from repalign.comparison.results import CompareResult
from repalign.core.affine import AffineMap, MappedRows
from repalign.engine.machine import OnStage, ignore_stage
from repalign.exceptions import InputError, StoreError
from repalign.files import check_output, ensure_directory, protecting
from repalign.store import WriteOptions, write_store
from repalign.store.exchange import stored_type
from repalign.store.map_file import SavedMap, load_map, save_map
from repalign.store.open import open_embeddings
from repalign.store.source import EmbeddingSource

if TYPE_CHECKING:
    from repalign.store.reader import StoreInfo

SUFFIX = ".safetensors"


@dataclass(frozen=True)
class MapReport:
    """What a saved map is.

    Attributes:
        path: The file.
        kind: How it was fitted.
        source_dim: Columns it takes.
        target_dim: Columns it gives.
        rank: Directions of the source that it keeps.
        determinant_sign: +1 or −1 for a square map of full rank, 0 else.
        smallest_stretch: Smallest singular value.
        largest_stretch: Largest singular value; equal to the smallest for a rigid map.
        metadata: Where it comes from.
    """

    path: str
    kind: str
    source_dim: int
    target_dim: int
    rank: int
    determinant_sign: int
    smallest_stretch: float
    largest_stretch: float
    metadata: Mapping[str, Any]


def check_new_maps(folder: str | Path, names: Iterable[str]) -> None:
    """Check, before anything is computed, that a folder has none of these maps.

    Raises:
        StoreError: A map of such a name is there.
    """
    for name in names:
        for path in sorted(Path(folder).glob(f"[0-9][0-9]*-{_file_name(name)}")):
            check_output(path, overwrite=False, failure=StoreError)


@checked
def save_result_maps(
    result: CompareResult, folder: str | Path, *, overwrite: bool = False
) -> list[Path]:
    """Save every map of a comparison and return the files.

    They were fitted on all rows, or on the training rows (``map_rows="training"``).

    A file is named after its pair and map: ``01-rigid.safetensors`` for the first pair.

    Raises:
        InputError: The maps of so many pairs were not kept.

    Example:
        >>> import numpy as np, repalign
        >>> x = np.random.default_rng(0).laplace(size=(50, 3))
        >>> result = repalign.compare(x, 2 * x, quick=True, maps=["rigid", "linear"])
        >>> [path.name for path in save_result_maps(result, "maps")]
        ['01-rigid.safetensors', '01-linear.safetensors']
    """
    if result.pairs and not result.maps:
        raise InputError(
            f"the maps of {len(result.pairs)} pairs were not kept, which would take more than half "
            "of the memory cap; raise it (--memory), or compare fewer pairs"
        )
    where = ensure_directory(folder)
    written = []
    results = zip(result.pairs, result.maps, result.fitted_rows, strict=True)
    for number, (pair, maps, rows) in enumerate(results, start=1):
        fitted_rows = rows.key_hashes()
        metadata = {
            "source": _origin(pair.source),
            "target": _origin(pair.target),
            "n_rows": len(rows),
            "settings": dict(result.settings),
            "versions": dict(result.versions),
        }
        for name, fitted in maps.items():
            path = where / f"{number:02d}-{_file_name(name)}"
            saved = SavedMap(name, fitted.matrix, fitted.shift, metadata, fitted_rows)
            save_map(saved, path, overwrite=overwrite)
            written.append(path)
    return written


def _file_name(name: str) -> str:
    return name.replace("+", "-") + SUFFIX


@checked
def read_map(path: str | Path) -> AffineMap:
    """Load a saved map.

    Example:
        >>> import numpy as np, repalign
        >>> x = np.random.default_rng(0).laplace(size=(50, 3))
        >>> result = repalign.compare(x, 2 * x + 1, quick=True, maps="rigid")
        >>> (path,) = repalign.save_result_maps(result, "maps-to-read")
        >>> np.allclose(read_map(path).apply(x), 2 * x + 1)
        True
    """
    saved = load_map(path)
    return AffineMap(kind=saved.kind, matrix=saved.matrix, shift=saved.shift)


def describe_map(path: str | Path) -> MapReport:
    """Say what a saved map does."""
    saved = load_map(path)
    stretches = np.linalg.svd(saved.matrix, compute_uv=False)
    sign = np.linalg.slogdet(saved.matrix)[0] if saved.matrix.shape[0] == len(saved.shift) else 0
    return MapReport(
        path=str(path),
        kind=saved.kind,
        source_dim=saved.matrix.shape[0],
        target_dim=saved.matrix.shape[1],
        rank=int(np.linalg.matrix_rank(saved.matrix)),
        determinant_sign=int(sign),
        smallest_stretch=float(stretches[-1]),
        largest_stretch=float(stretches[0]),
        metadata=saved.metadata,
    )


@checked
def apply_map(
    path: str | Path,
    embeddings: str | Path,
    out: str | Path,
    *,
    inverse: bool = False,
    overwrite: bool = False,
    on_stage: OnStage = ignore_stage,
) -> "StoreInfo":
    """Send every row through a saved map and write the result as a store, in the same type.

    Raises:
        InputError: The widths do not fit, the map cannot be inverted, or ``out`` is an input.

    Example:
        >>> import numpy as np, repalign
        >>> x = np.random.default_rng(0).laplace(size=(50, 3))
        >>> np.save("x.npy", x)
        >>> result = repalign.compare(x, 2 * x + 1, quick=True, maps="rigid")
        >>> (path,) = repalign.save_result_maps(result, "maps-to-apply")
        >>> apply_map(path, "x.npy", "mapped.h5").n_rows
        50
    """
    saved = load_map(path)
    fitted = AffineMap(kind=saved.kind, matrix=saved.matrix, shift=saved.shift)
    if inverse:
        fitted = fitted.inverse()
    source = open_embeddings(embeddings)
    if source.dim != fitted.source_dim:
        raise InputError(
            f"{source.name}: has {source.dim} columns, and the map {path} takes "
            f"{fitted.source_dim}; apply it to rows of the space that it was fitted on"
        )
    mapped = MappedRows(source.rows, fitted)
    spec = {
        "made_by": "repalign apply",
        "map": {
            "file": Path(path).name,
            "kind": fitted.kind,
            "inverse": inverse,
            "to": saved.metadata.get("source" if inverse else "target"),
            "fitted": encode_rows(_fitted(saved, source, inverse=inverse)),
        },
        "rows": _origin({"name": source.name, "fingerprint": source.fingerprint}),
        "info": dict(source.info),
    }
    with protecting([path] if source.path is None else [path, source.path]):
        return write_store(
            out,
            {source.view or "mapped": mapped},
            index=source.index,
            spec=spec,
            options=WriteOptions(dtype=stored_type(mapped), expected_rows=mapped.shape[0]),
            overwrite=overwrite,
            on_progress=lambda done, total: on_stage("rows", done, total),
        )


def _fitted(saved: SavedMap, source: EmbeddingSource, *, inverse: bool) -> BoolArray:
    """Return which rows of a source fitted a map.

    Rows that only their place identifies are those of the map where the content is the same.
    """
    fitted = np.isin(source.index.key_hashes(), saved.fitted_rows)
    side = saved.metadata.get("target" if inverse else "source")
    is_named = source.index.ids is not None or source.index.sample_sha is not None
    if is_named or (isinstance(side, Mapping) and side.get("fingerprint") == source.fingerprint):
        return fitted
    return np.zeros_like(fitted)


def _origin(side: Mapping[str, Any]) -> dict[str, Any]:
    """Return what names a side in the description of a map."""
    return {key: side[key] for key in ("name", "view", "fingerprint", "dim") if key in side}


def map_record(report: MapReport) -> dict[str, Any]:
    """Return the report as one flat record."""
    record = asdict(report)
    metadata = record.pop("metadata")
    for side in ("source", "target"):
        origin = metadata.get(side)
        record[side] = origin.get("name") if isinstance(origin, Mapping) else origin
    return record
