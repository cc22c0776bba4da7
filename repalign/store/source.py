"""One set of embeddings: rows, their identities and their origin."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from repalign.aliases import FloatArray, Rows
from repalign.arguments import check_path, listed
from repalign.exceptions import InputError
from repalign.store.digests import column_root, content_fingerprint, leaf_digests
from repalign.store.format import index_column, view_column
from repalign.store.index import RowIndex, encode_ids

Identity = Literal["ids", "sample numbers", "row order"]

# Columns of the index that tell which input a row is.
IDENTIFYING: dict[Identity, tuple[str, ...]] = {
    "ids": ("ids", "token"),
    "sample numbers": ("sample", "token"),
    "row order": (),
}
BLOCK_BYTES = 16 * 2**20
VIEW_MARK = "::"


@dataclass(frozen=True)
class Locator:
    """A file and a view in it, as written on a command line: ``runs/a.h5::block11``."""

    path: Path
    view: str | None


@dataclass(frozen=True, eq=False)
class EmbeddingSource:
    """One matrix of embeddings of any origin, with the identity of its rows.

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
        columns: what the file calls the columns, or None.
        layer: place of the view among those of its file, from 0, where it was determined.

    Example:
        >>> import numpy as np, repalign
        >>> source = repalign.as_source(np.eye(3), name="mine", ids=["a", "b", "c"])
        >>> source.n_rows, source.dim, source.identity
        (3, 3, 'ids')
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
    columns: tuple[str, ...] | None = None
    layer: int | None = None

    @property
    def shown_view(self) -> str:
        """Name of the view in results; an array in memory has none."""
        return "" if self.path is None else self.view

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
        """Hash of the values, in their type, and of the identities of the rows.

        Equal for equal content, whatever file it lies in and whatever the view is called: ids and
        token positions enter, or sample numbers and token positions; of rows that only have an
        order nothing does. Hashes of inputs do not enter, which many files cannot keep.
        """
        if self.known_fingerprint is not None:
            return self.known_fingerprint
        root = values_root(self.rows)
        return fingerprint_of(self.rows, root, self.index, self.identity)


def parse_locator(text: str | Path) -> Locator:
    """Split ``path::view``, unless the whole text is a path that exists.

    Raises:
        InputError: no path, or nothing before or after the mark.
    """
    check_path("path", text)
    if isinstance(text, Path) or Path(text).exists() or VIEW_MARK not in text:
        return Locator(Path(text), None)
    path, _, view = text.rpartition(VIEW_MARK)
    if not path or not view:
        raise InputError(f"{text!r}: expected a path, or path::view to choose a view in it")
    return Locator(Path(path), view)


def with_ids(source: EmbeddingSource, ids: Sequence[str]) -> EmbeddingSource:
    """Return a source with ids, unless it has some already.

    Raises:
        InputError: not one id per row.
    """
    if source.identity == "ids":
        return source
    ids = listed("ids", ids, "texts, one a row")
    if len(ids) != source.n_rows:
        raise InputError(
            f"{source.name}: has {source.n_rows} rows and got {len(ids)} ids; give one id per row"
        )
    columns = {**source.index.columns, "ids": encode_ids(ids)}
    info = {**source.info, "ids_from": "the ids given"}
    return replace(
        source, index=RowIndex(**columns), identity="ids", info=info, known_fingerprint=None
    )


def row_blocks(
    rows: Rows, block_bytes: int = BLOCK_BYTES, *, multiple: int = 1
) -> Iterator[tuple[int, FloatArray]]:
    """Yield all rows in blocks, with the number of the first row.

    A block has about ``block_bytes``, and a multiple of ``multiple`` rows unless it is the last.
    """
    n_rows, n_columns = rows.shape
    step = max(1, block_bytes // max(n_columns * rows.dtype.itemsize * multiple, 1)) * multiple
    for start in range(0, n_rows, step):
        yield start, rows.read(start, min(start + step, n_rows))


def values_root(rows: Rows) -> str:
    """Return the digest of all values, read once in blocks."""
    column = view_column("", rows.shape[1], rows.dtype.name)
    leaves: list[bytes] = []
    for _, block in row_blocks(rows, multiple=column.leaf_rows):
        leaves += leaf_digests(column, np.ascontiguousarray(block, dtype=column.dtype))
    return column_root(leaves)


def fingerprint_of(
    rows: Rows, root: str, index: RowIndex | None = None, identity: Identity = "row order"
) -> str:
    """Return the fingerprint of rows from the digest of their values.

    Args:
        rows: the values, for their shape and type.
        root: what ``values_root`` returns.
        index: who the rows are, where anything identifies them.
        identity: what of the index does.
    """
    roots = {"values": root}
    if index is not None:
        for name in IDENTIFYING[identity]:
            roots[name] = column_root(leaf_digests(index_column(name, 1), index.columns[name]))
    values = view_column("", rows.shape[1], rows.dtype.name)
    return content_fingerprint(rows.shape[0], values, roots)
