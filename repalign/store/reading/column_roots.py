"""Digests of a column that lies in several files."""

from collections.abc import Iterable, Iterator

from repalign.store.format.digests import column_root, leaf_digest
from repalign.store.format.schema import Column
from repalign.store.reading.rows import StoredRows


def is_aligned(column: Column, rows: StoredRows) -> bool:
    """Tell whether every file but the last ends with a whole leaf of the column."""
    return not (rows.starts[:-1] % column.leaf_rows).any()


def joined_roots(rows: StoredRows, columns: Iterable[Column]) -> dict[str, str]:
    """Return the roots of columns of all files together, by path.

    The stored digests are used where the files end with whole leaves; otherwise values are read.
    """
    columns = tuple(columns)
    stored: dict[str, list[bytes]] = {c.path: [] for c in columns if is_aligned(c, rows)}
    for file in rows.files():  # each is opened once
        for path, leaves in stored.items():
            leaves += file.column(path).digests()
    return {
        column.path: column_root(
            stored[column.path] if column.path in stored else _computed_leaves(column, rows)
        )
        for column in columns
    }


def _computed_leaves(column: Column, rows: StoredRows) -> Iterator[bytes]:
    """Return the leaf digests of a column from its values."""
    n_rows = int(rows.starts[-1])
    for start in range(0, n_rows, column.leaf_rows):
        yield leaf_digest(rows.read(column, start, min(n_rows, start + column.leaf_rows)))
