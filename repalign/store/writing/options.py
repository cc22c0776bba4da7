"""How a store is written; nothing of it changes what the rows mean."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from repalign.exceptions import InputError
from repalign.store.format.schema import INDEX_LEAF_ROWS, Compression, StoredDtype
from repalign.store.writing.disk_space import check_space

_SHARD_BYTES = 2**27


@dataclass(frozen=True)
class WriteOptions:
    """Settings of a writer.

    Args:
        dtype: type in which values are stored; float16 halves the size and is never a default.
        compression: gzip or blosc2 (needs the ``blosc`` extra); activations hardly shrink.
        licence: note on the terms of use of model and data.
        environment: what to record besides the versions of python, numpy, h5py and HDF5.
        shard_rows: rows of one shard; by default about 128 MiB.
        n_shards: planned number of shards, for several writers of one store.
        n_writers: processes that write shards at once; with one, a second is refused.
        expected_rows: planned number of rows; the disk is checked for them at the start.
        verify_resumed: how shards that are there already are checked, ``quick`` or ``full``.
    """

    dtype: StoredDtype = "float32"
    compression: Compression | None = None
    licence: str | None = None
    environment: Mapping[str, Any] = field(default_factory=dict)
    shard_rows: int | None = None
    n_shards: int | None = None
    n_writers: int = 1
    expected_rows: int | None = None
    verify_resumed: Literal["quick", "full"] = "quick"

    def __post_init__(self) -> None:
        for name in ("shard_rows", "n_shards", "n_writers", "expected_rows"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"{name} is {value}; give at least 1, or nothing")

    def rows_of_shard(self, row_bytes: int) -> int:
        """Return the rows of one shard, whole digests of every column where that is possible."""
        if self.shard_rows is not None:
            return self.shard_rows
        fitting = max(1, _SHARD_BYTES // row_bytes)
        power: int = 1 << (fitting.bit_length() - 1)
        # narrow rows: enough of them to make opening a shard worth while
        return min(max(64, power), 256 * INDEX_LEAF_ROWS)

    def check_disk(self, path: Path, row_bytes: int, n_present: int, *, is_packed: bool) -> None:
        """Refuse a store that the disk cannot hold; packing needs the room of all rows again.

        Raises:
            StoreError: too little is free.
        """
        if self.expected_rows is not None:
            to_write = max(0, self.expected_rows - n_present)
            to_pack = self.expected_rows if is_packed else 0
            check_space(path, (to_write + to_pack) * row_bytes)
