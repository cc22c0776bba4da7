"""One side of a pair: rows in the order of the pair, that can be sent to another process."""

import contextlib
import hashlib
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from repalign.aliases import FloatArray, IntArray, Rows
from repalign.core.rows import ArrayRows
from repalign.exceptions import InputError
from repalign.store.rows.gathered import arrange_rows
from repalign.store.sources.opening import open_embeddings
from repalign.store.sources.source import EmbeddingSource


@dataclass(frozen=True)
class Elsewhere:
    """Stands for the rows of a file that another process had open."""

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    has_known_fingerprint: bool

    def read(self, start: int, stop: int) -> FloatArray:
        """Refuse: the file must be opened here first."""
        raise NotImplementedError("opened by Space.rows")

    def take(self, rows: IntArray) -> FloatArray:
        """Refuse: the file must be opened here first."""
        raise NotImplementedError("opened by Space.rows")


class Space:
    """The rows of a source that belong to a pair, in the pair's order.

    Sent to another process, a file goes by its name and is opened there, checked by its
    fingerprint; an array goes by value.

    Attributes:
        source: Where the rows come from.
        positions: Which of its rows; None for all in their own order.
    """

    def __init__(
        self, source: EmbeddingSource, positions: IntArray | None, rows: Rows | None = None
    ) -> None:
        self.source = source
        self.positions = positions
        if rows is not None:
            self.rows = rows

    @cached_property
    def rows(self) -> Rows:
        """The rows, opened at first use.

        Raises:
            InputError: The file is not any more what it was.
        """
        found = self.source.rows
        if isinstance(found, Elsewhere):
            found = _open_again(self.source, found)
        if self.positions is None:
            return found
        chunk_rows, label = self.source.chunk_rows, self.source.name
        return arrange_rows(found, self.positions, chunk_rows=chunk_rows, label=label)[0]

    @property
    def n_rows(self) -> int:
        """Number of rows of the pair."""
        return self.source.n_rows if self.positions is None else len(self.positions)

    @property
    def dim(self) -> int:
        """Number of columns."""
        return self.source.dim

    @cached_property
    def key(self) -> str:
        """Name of the content, its choice and its order, whatever they are called."""
        if self.positions is None:
            return self.source.fingerprint
        return f"{self.source.fingerprint}[{digest(self.positions)}]"

    def __getstate__(self) -> dict[str, Any]:
        source, rows = self.source, self.source.rows
        if isinstance(rows, Elsewhere) or _is_plain(rows):
            sent: Rows = rows  # not a copy for every unit that it is in
        elif source.path is None:
            sent = ArrayRows(rows.read(0, source.n_rows))
        else:
            sent = Elsewhere(rows.shape, rows.dtype, source.known_fingerprint is not None)
        known = replace(source, rows=sent, known_fingerprint=source.fingerprint)
        return {"source": known, "positions": self.positions}


def _is_plain(rows: Rows) -> bool:
    return isinstance(rows, ArrayRows) and type(rows.values) is np.ndarray


def digest(values: np.ndarray) -> str:
    """Return a short name of the values of an array of whole numbers."""
    plain = np.ascontiguousarray(values, dtype="<i8")
    return hashlib.sha256(plain.tobytes()).hexdigest()[:16]


_CHECKED: set[tuple[Path, str, str]] = set()


@lru_cache(maxsize=32)
def _opened(path: Path, view: str) -> EmbeddingSource:
    # A file of one matrix takes no view, one of several needs it.
    with contextlib.suppress(InputError):
        source = open_embeddings(path)
        if source.view == view:
            return source
    return open_embeddings(path, view=view)


def _open_again(source: EmbeddingSource, was: Elsewhere) -> Rows:
    """Open the file of a source that was sent here."""
    assert source.path is not None
    opened = _opened(source.path, source.view)
    name = (source.path, source.view, source.fingerprint)
    if name not in _CHECKED:
        known = opened.known_fingerprint if was.has_known_fingerprint else None
        found = replace(source, rows=opened.rows, known_fingerprint=known)
        if found.fingerprint != source.fingerprint:
            raise InputError(
                f"{source.name}: is not what it was when the comparison began; leave it alone "
                "while it is compared, and start again"
            )
        _CHECKED.add(name)
    return opened.rows
