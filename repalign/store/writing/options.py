"""How a store is written; nothing of it changes what the rows mean."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from repalign.options import Settings, option
from repalign.store.format import INDEX_LEAF_ROWS, StoredDtype

_SHARD_BYTES = 2**27


@dataclass(frozen=True)
class WriteOptions(Settings):
    """Settings of a writer.

    Example:
        >>> import numpy as np, repalign
        >>> options = WriteOptions(dtype="float64", licence="CC0")
        >>> info = repalign.write_store("exact.h5", np.eye(2), options=options)
        >>> repalign.open_embeddings("exact.h5").rows.dtype
        dtype('float64')
    """

    dtype: StoredDtype = option(
        "float32",
        "Type in which values are stored; float16 halves the size and is never a default.",
        flag="",
    )
    licence: str | None = option(
        None, "Note on the terms of use of model and data, kept in the store."
    )
    environment: Mapping[str, Any] = option(
        factory=dict,
        help="What to record besides the versions of python, numpy, h5py and HDF5.",
        flag="",
    )
    n_shards: int | None = option(
        None, "Planned number of shards, for several writers of one store.", least=1, flag=""
    )
    n_writers: int = option(
        1, "Processes that write shards at once; with one, a second is refused.", least=1, flag=""
    )
    expected_rows: int | None = option(
        None, "Planned number of rows; the disk is checked for them at the start.", least=1, flag=""
    )

    def rows_of_shard(self, row_bytes: int) -> int:
        """Return the rows of one shard, whole digests of every column where that is possible."""
        fitting = max(1, _SHARD_BYTES // row_bytes)
        power: int = 1 << (fitting.bit_length() - 1)
        # narrow rows: enough of them to make opening a shard worth while
        return min(max(64, power), 256 * INDEX_LEAF_ROWS)
