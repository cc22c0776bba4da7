"""The header of one store file: one JSON text that describes and seals everything in it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from repalign.exceptions import StoreError
from repalign.store.format.digests import fingerprint_of
from repalign.store.format.layout import (
    Description,
    IndexLayout,
    parse_description,
    parse_index_layout,
    take,
    take_sha256,
)
from repalign.store.format.schema import Column
from repalign.store.format.sealed_json import canonical_json


@dataclass(frozen=True)
class Header:
    """Everything about one file but its values.

    Args:
        description: how the rows were made.
        index: columns of the row index.
        n_rows: number of rows, at least one.
        shard: number of the shard; None for a packed store.
        roots: sha256 of the leaf digests of every column, by its path.
    """

    description: Description
    index: IndexLayout
    n_rows: int
    shard: int | None
    roots: Mapping[str, str]

    @property
    def columns(self) -> tuple[Column, ...]:
        """All datasets of rows: the index, then the views."""
        return columns_of(self.description, self.index)

    @property
    def fingerprint(self) -> str:
        """What identifies the content."""
        return fingerprint_of(self.n_rows, self.columns, self.roots)

    def to_text(self) -> str:
        """Return it as canonical JSON."""
        return canonical_json(
            self.description.to_json()
            | {
                "n_rows": self.n_rows,
                "index": list(self.index.columns),
                "id_bytes": self.index.id_bytes,
                "shard": self.shard,
                "digests": dict(self.roots),
                "fingerprint": self.fingerprint,
            }
        )


def columns_of(description: Description, index: IndexLayout) -> tuple[Column, ...]:
    """Return all datasets of rows of a store: the index, then the views."""
    return (*index.datasets(), *(view.column for view in description.views))


def parse_header(content: Mapping[str, Any], where: str) -> Header:
    """Return the header that a file declares.

    Raises:
        StoreError: a value that this format does not allow.
    """
    description = parse_description(content, where)
    index = parse_index_layout(content, where)
    n_rows = take(content, "n_rows", int, where)
    shard = take(content, "shard", (int, type(None)), where)
    if n_rows < 1 or (shard is not None and shard < 0):
        raise StoreError(f"{where}: key 'n_rows' is {n_rows} in shard {shard}; expected 1 or more")
    declared = take(content, "digests", dict, where)
    roots = {
        column.path: take_sha256(declared, column.path, f"{where}: digests")
        for column in columns_of(description, index)
    }
    if declared.keys() != roots.keys():
        raise StoreError(f"{where}: key 'digests' names unknown columns; the file is damaged")
    header = Header(description, index, n_rows, shard, roots)
    if take_sha256(content, "fingerprint", where) != header.fingerprint:
        raise StoreError(f"{where}: key 'fingerprint' is not that of the digests; file is damaged")
    return header
