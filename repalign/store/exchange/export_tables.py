"""Writers of tables, block by block: CSV and parquet."""

import csv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from repalign.exceptions import MissingExtraError
from repalign.store.joining.index import POOLED, RowIndex, decode_ids
from repalign.store.sources.source import EmbeddingSource, row_blocks

OnProgress = Callable[[int, int], None]

LIST_NAME = "embedding"
TEXT_BLOCK_BYTES = 2**20  # a number takes up to 128 bytes as text


def write_csv(path: Path, source: EmbeddingSource, on_progress: OnProgress) -> None:
    """Write one line per row: ids, token positions and hashes, then ``e0``, ``e1``, ….

    Every number has the digits that give the same float again.
    """
    names = identity_names(source.index)
    with path.open("x", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow([*names, *(f"e{column}" for column in range(source.dim))])
        for start, block in row_blocks(source.rows, TEXT_BLOCK_BYTES):
            stop = start + len(block)
            leading = identity_values(source.index.slice(start, stop), names)
            # str of a numpy float has the fewest digits that tell it from its neighbours
            cells = block.astype(str).T.tolist()
            writer.writerows(zip(*leading, *cells, strict=True))
            on_progress(stop, source.n_rows)


def write_parquet(path: Path, source: EmbeddingSource, on_progress: OnProgress) -> None:
    """Write ids, token positions and hashes as columns and the values as a column of lists.

    Raises:
        MissingExtraError: pyarrow is not installed.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingExtraError("pyarrow", extra="parquet", purpose=f"writing {path}") from error
    value_type = pa.from_numpy_dtype(source.rows.dtype)
    kinds = {"id": pa.string(), "token": pa.int32(), "sample_sha": pa.string()}
    names = identity_names(source.index)
    list_type = pa.list_(value_type, source.dim)
    schema = pa.schema([*((name, kinds[name]) for name in names), (LIST_NAME, list_type)])
    with pq.ParquetWriter(path, schema) as writer:
        for start, block in row_blocks(source.rows):
            stop = start + len(block)
            columns = identity_values(source.index.slice(start, stop), names)
            arrays = [
                pa.array(values, kinds[name]) for name, values in zip(names, columns, strict=True)
            ]
            flat = pa.array(np.ascontiguousarray(block).reshape(-1), value_type)
            arrays.append(pa.FixedSizeListArray.from_arrays(flat, source.dim))
            writer.write_batch(pa.record_batch(arrays, schema=schema))
            on_progress(stop, source.n_rows)


def identity_names(index: RowIndex) -> list[str]:
    """Return which columns tell what the rows are; pooled rows need no token position."""
    known = {
        "id": index.ids is not None,
        "token": bool((index.token != POOLED).any()),
        "sample_sha": index.sample_sha is not None,
    }
    return [name for name, is_known in known.items() if is_known]


def identity_values(index: RowIndex, names: Sequence[str]) -> list[list[Any]]:
    """Return the named columns as text and integers."""
    columns: dict[str, list[Any]] = {"token": index.token.tolist()}
    if index.ids is not None:
        columns["id"] = decode_ids(index.ids)
    if index.sample_sha is not None:
        columns["sample_sha"] = [value.tobytes().hex() for value in index.sample_sha]
    return [columns[name] for name in names]
