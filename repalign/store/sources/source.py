"""One set of embeddings as every command sees it: rows, who they are, where they come from."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from repalign.aliases import FloatArray, Rows
from repalign.exceptions import InputError
from repalign.store.joining.index import RowIndex, encode_ids

Identity = Literal["ids", "sample numbers", "row order"]

BLOCK_BYTES = 16 * 2**20
VIEW_MARK = "::"


@dataclass(frozen=True)
class Locator:
    """A file and a view in it, as written on a command line: ``runs/a.h5::block11``."""

    path: Path
    view: str | None


@dataclass(frozen=True, eq=False)
class EmbeddingSource:
    """One matrix of embeddings with the identity of its rows, wherever it comes from.

    Args:
        name: how messages and results call it: the path as given, or a name for an array.
        path: the file or directory; None for an array in memory.
        view: which matrix of the file.
        rows: the values, read in blocks.
        index: which input every row is.
        identity: what of the index identifies a row; "row order" where nothing does.
        info: where it comes from, for reports: layout, source of the ids, or the store's spec.
        has_sample_numbers: whether the sample numbers of the index come from a data set and are
            not merely the places of the rows.
        chunk_rows: rows that are always read together; 1 where any row can be read alone.
        known_fingerprint: fingerprint of the content, where it is known without reading it.
    """

    name: str
    path: Path | None
    view: str
    rows: Rows
    index: RowIndex
    identity: Identity
    info: Mapping[str, Any] = field(default_factory=dict)
    has_sample_numbers: bool = False
    chunk_rows: int = 1
    known_fingerprint: str | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.rows.shape[0]

    @property
    def dim(self) -> int:
        """Number of columns."""
        return self.rows.shape[1]

    @cached_property
    def fingerprint(self) -> str:
        """Hash of values and row identities: equal for equal content, whatever the file."""
        if self.known_fingerprint is not None:
            return self.known_fingerprint
        return content_fingerprint(self.rows, self.index)


def parse_locator(text: str | Path) -> Locator:
    """Split ``path::view``; a path that exists as it is written is taken whole.

    Raises:
        InputError: nothing before or after the mark.
    """
    if isinstance(text, Path) or Path(text).exists() or VIEW_MARK not in text:
        return Locator(Path(text), None)
    path, _, view = text.rpartition(VIEW_MARK)
    if not path or not view:
        raise InputError(f"{text!r}: expected a path, or path::view to choose a view in it")
    return Locator(Path(path), view)


def with_ids(source: EmbeddingSource, ids: Sequence[str]) -> EmbeddingSource:
    """Return a source whose rows have the given ids, unless it has ids of its own.

    Raises:
        InputError: not one id per row.
    """
    if source.identity == "ids":
        return source
    if len(ids) != source.n_rows:
        raise InputError(
            f"{source.name}: has {source.n_rows} rows and got {len(ids)} ids; give one id per row"
        )
    columns = {**source.index.columns, "ids": encode_ids(ids)}
    info = {**source.info, "ids_from": "the ids given"}
    return replace(
        source, index=RowIndex(**columns), identity="ids", info=info, known_fingerprint=None
    )


def row_blocks(rows: Rows, block_bytes: int = BLOCK_BYTES) -> Iterator[tuple[int, FloatArray]]:
    """Yield all rows in blocks of about ``block_bytes``, each with the number of its first row."""
    n_rows, n_columns = rows.shape
    step = max(1, block_bytes // max(n_columns * rows.dtype.itemsize, 1))
    for start in range(0, n_rows, step):
        yield start, rows.read(start, min(start + step, n_rows))


def content_fingerprint(rows: Rows, index: RowIndex) -> str:
    """Hash shape, type, values and row identities; reads everything once, in blocks."""
    digest = hashlib.sha256()
    little_endian = rows.dtype.newbyteorder("<")
    digest.update(f"rows {rows.shape[0]} {rows.shape[1]} {little_endian.str}\n".encode())
    for _, block in row_blocks(rows):
        digest.update(np.ascontiguousarray(block, dtype=little_endian).view(np.uint8).data)
    for name, column in index.columns.items():
        digest.update(f"{name} {column.dtype.str}\n".encode())
        digest.update(np.ascontiguousarray(column).view(np.uint8).data)
    return digest.hexdigest()
