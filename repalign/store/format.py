"""Names, limits and chunk sizes of the store format, and how it is written.

docs/store-format.md describes it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from repalign.options import Settings, option
from repalign.store.index import SHA_BYTES

FORMAT = "repalign-store"
FORMAT_VERSION = 2

# Names inside one HDF5 file.
HEADER = "header_json"
EMBEDDINGS = "emb"
INDEX = "index"
DIGESTS = "digests"
TOP_LEVEL = frozenset({HEADER, EMBEDDINGS, INDEX, DIGESTS})
VIEW_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")

# Names inside a directory.
DESCRIPTION = "store.json"
MANIFEST = "manifest.json"
SHARD_NAME = re.compile(r"part-(\d{5}|[1-9]\d{5,8})\.h5")
PARTS_SUFFIX = ".parts"

_SHARD_BYTES = 2**27

StoredDtype = Literal["float16", "float32", "float64"]
VerifyMode = Literal["quick", "full"]
DTYPES = {"float16": "<f2", "float32": "<f4", "float64": "<f8"}
INDEX_COLUMNS = ("sample", "token", "sample_sha", "ids")

MAX_VIEWS = 1024
MAX_DIM = 2**17
MAX_JSON_BYTES = 2**24
MAX_DESCRIPTION = 2**20

DIGEST_BYTES = 16
INDEX_LEAF_ROWS = 4096
_CHUNK_BYTES = 2**20


@dataclass(frozen=True)
class Column:
    """One dataset of a store: a view or a column of the row index.

    Args:
        path: name inside the file, such as ``emb/final`` or ``index/sample``.
        dtype: type of its values.
        width: values per row; None for a dataset of one dimension.
        leaf_rows: rows of one chunk and of one digest.
    """

    path: str
    dtype: np.dtype[Any]
    width: int | None
    leaf_rows: int

    @property
    def row_bytes(self) -> int:
        """Size of one row."""
        return self.dtype.itemsize * (self.width or 1)

    def shape(self, n_rows: int) -> tuple[int, ...]:
        """Shape of ``n_rows`` rows."""
        return (n_rows,) if self.width is None else (n_rows, self.width)

    def chunks(self, n_rows: int) -> tuple[int, ...]:
        """Chunk shape in a file of ``n_rows`` rows; HDF5 allows no chunk above the dataset."""
        return self.shape(min(self.leaf_rows, n_rows))

    def n_leaves(self, n_rows: int) -> int:
        """Number of chunks, and of digests, of ``n_rows`` rows."""
        return -(-n_rows // self.leaf_rows)


def view_column(name: str, dim: int, dtype: str) -> Column:
    """Return the column that holds a view, in chunks of about 1 MiB, 64 to 4096 rows."""
    kind = np.dtype(DTYPES[dtype])
    fitting = _CHUNK_BYTES // max(1, dim * kind.itemsize)
    power = 1 << max(0, fitting.bit_length() - 1)
    return Column(f"{EMBEDDINGS}/{name}", kind, dim, leaf_rows=min(4096, max(64, power)))


def index_column(name: str, id_bytes: int) -> Column:
    """Return a column of the row index."""
    kinds: dict[str, tuple[np.dtype[Any], int | None]] = {
        "sample": (np.dtype("<i8"), None),
        "token": (np.dtype("<i4"), None),
        "sample_sha": (np.dtype("u1"), SHA_BYTES),
        "ids": (np.dtype(f"S{max(1, id_bytes)}"), None),
    }
    dtype, width = kinds[name]
    return Column(f"{INDEX}/{name}", dtype, width, INDEX_LEAF_ROWS)


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
