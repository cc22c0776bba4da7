"""Where the chunks of a dataset lie in its file."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repalign.exceptions import StoreError
from repalign.store.format.schema import COMPRESSORS, Column
from repalign.store.reading.safety import expected_filters, told_as_store_error

_COMPRESSION_OVERHEAD = 4096


@dataclass(frozen=True, eq=False)
class ChunkMap:
    """Place of every chunk, by its number.

    Args:
        offset: ``(chunks,)`` position in the file.
        stored: ``(chunks,)`` size in the file, filters applied.
        compressed: ``(chunks,)`` whether the compressor was applied (it is not where a chunk
            would have grown).
    """

    offset: NDArray[np.int64]
    stored: NDArray[np.int64]
    compressed: NDArray[np.bool_]


def read_chunk_map(dataset: Any, column: Column, size: int, where: str) -> ChunkMap:
    """Return the map of a dataset after checking that every chunk is there and in the file.

    HDF5 itself would silently give zeros for a missing chunk.

    Raises:
        StoreError: a chunk is missing, outside the file, of an impossible size, or was not
            written with its filters.
    """
    n_chunks = column.n_leaves(dataset.shape[0])
    chunk_bytes = dataset.chunks[0] * column.row_bytes
    offset = np.full(n_chunks, -1, dtype=np.int64)
    stored = np.zeros(n_chunks, dtype=np.int64)
    mask = np.zeros(n_chunks, dtype=np.int64)
    wrong: list[str] = []

    def note(chunk: Any) -> bool | None:
        number, rest = divmod(chunk.chunk_offset[0], column.leaf_rows)
        if rest or any(chunk.chunk_offset[1:]) or number >= n_chunks or offset[number] >= 0:
            wrong.append(f"a chunk at {chunk.chunk_offset}")
            return True  # ends the iteration
        offset[number] = min(chunk.byte_offset, np.iinfo(np.int64).max)
        stored[number] = min(chunk.size, np.iinfo(np.int64).max)
        mask[number] = chunk.filter_mask
        return None

    with told_as_store_error(where):
        dataset.id.chunk_iter(note)
    allowed = [0]
    smallest = largest = chunk_bytes
    if column.compression:
        allowed.append(1 << expected_filters(column).index(COMPRESSORS[column.compression]))
        smallest = 1
        largest += chunk_bytes // 8 + _COMPRESSION_OVERHEAD
    missing = offset < 0
    bad_mask = ~np.isin(mask, allowed)
    bad_size = (stored < smallest) | (stored > largest)
    outside = offset > size - stored
    for name, found in (
        ("is missing", missing),
        ("was not written with its filters", bad_mask),
        ("has an impossible size", bad_size),
        ("lies outside the file", outside),
    ):
        if found.any():
            wrong.append(f"chunk {int(found.argmax())} {name}")
    if wrong:
        raise StoreError(f"{where}: {wrong[0]}; the file is damaged")
    return ChunkMap(offset, stored, mask == 0)
