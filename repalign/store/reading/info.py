"""What a store says of itself without reading its rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from repalign.store.format.layout import ViewInfo


@dataclass(frozen=True)
class StoreInfo:
    """Summary of a store.

    Args:
        path: where it is.
        layout: a packed file or a directory of shards.
        format_version: version of the format.
        n_rows: number of rows.
        views: the representations, sorted by name.
        index_columns: columns of the row index.
        spec: everything that determines the values.
        spec_sha256: sha256 of the canonical JSON of the spec.
        environment: versions and machine class of the run that wrote it.
        licence: note on the terms of use, or None.
        is_complete: whether no shard is missing.
        n_shards: number of files.
        n_bytes: size on disk.
    """

    path: Path
    layout: Literal["file", "directory"]
    format_version: int
    n_rows: int
    views: tuple[ViewInfo, ...]
    index_columns: tuple[str, ...]
    spec: Mapping[str, Any]
    spec_sha256: str
    environment: Mapping[str, Any]
    licence: str | None
    is_complete: bool
    n_shards: int
    n_bytes: int
