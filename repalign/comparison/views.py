"""One matrix of rows in the order of its pair; it can be sent to another process.

Sent, a file goes by its name and is opened again, checked by its fingerprint; an array goes by
value. Rows of files that are read several times stay in memory where they have room.
"""

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from repalign.aliases import FloatArray, IntArray, Rows
from repalign.core.rows import ArrayRows
from repalign.engine.cache import digest
from repalign.engine.machine import Machine
from repalign.exceptions import InputError
from repalign.store.open import open_embeddings
from repalign.store.rows import arrange_rows
from repalign.store.source import EmbeddingSource

# A null on more rows costs more and says the same: far from n ≈ p it no longer depends on n.
MAX_NULL_ROWS = 20_000
# Of each row a null holds the value itself, in double precision, and shuffled.
NULL_COPIES = 3
# Blocks of rows, what is multiplied with them, and decompositions that are remembered.
BLOCKS_BYTES = 2**28


@dataclass(frozen=True)
class UnopenedRows:
    """Placeholder for the rows of a file, which the process that uses them opens."""

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    has_known_fingerprint: bool

    def read(self, start: int, stop: int) -> FloatArray:
        """Refuse: the file must be opened here first."""
        raise NotImplementedError("opened by View.rows")

    def take(self, rows: IntArray) -> FloatArray:
        """Refuse: the file must be opened here first."""
        raise NotImplementedError("opened by View.rows")


class View:
    """The rows of a source that belong to a pair, in the pair's order.

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
        rows = self.source.rows
        if isinstance(rows, UnopenedRows):
            rows = _open_again(self.source, rows)
        if self.positions is None:
            return rows
        chunk_rows, label = self.source.chunk_rows, self.source.name
        return arrange_rows(rows, self.positions, chunk_rows=chunk_rows, label=label)[0]

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

    @property
    def n_bytes(self) -> int:
        """Bytes of the rows as they are stored."""
        return self.n_rows * self.dim * self.source.rows.dtype.itemsize

    def loaded(self, partner_dim: int, machine: Machine) -> Rows:
        """Return the rows from memory, or read them into it where they have room."""
        return loaded_rows(self, room_for_rows(self.n_rows, (self.dim, partner_dim), machine))

    def __getstate__(self) -> dict[str, Any]:
        source, rows = self.source, self.source.rows
        if isinstance(rows, UnopenedRows) or _is_plain(rows):
            sent: Rows = rows  # not a copy for every call that it is in
        elif source.path is None:
            sent = ArrayRows(rows.read(0, source.n_rows))
        else:
            sent = UnopenedRows(rows.shape, rows.dtype, source.known_fingerprint is not None)
        known = replace(source, rows=sent, known_fingerprint=source.fingerprint)
        return {"source": known, "positions": self.positions}


def _is_plain(rows: Rows) -> bool:
    return isinstance(rows, ArrayRows) and type(rows.values) is np.ndarray


_CHECKED: set[tuple[Path, str, str]] = set()


@lru_cache(maxsize=32)
def _opened(path: Path, view: str) -> EmbeddingSource:
    # A file of one matrix takes no view, one of several needs it.
    with contextlib.suppress(InputError):
        source = open_embeddings(path)
        if source.view == view:
            return source
    return open_embeddings(path, view=view)


def _open_again(source: EmbeddingSource, was: UnopenedRows) -> Rows:
    """Open the file of a source that was sent here."""
    assert source.path is not None
    opened = _opened(source.path, source.view)
    name = (source.path, source.view, source.fingerprint)
    if name not in _CHECKED:
        known = opened.known_fingerprint if was.has_known_fingerprint else None
        current = replace(source, rows=opened.rows, known_fingerprint=known)
        if current.fingerprint != source.fingerprint:
            raise InputError(
                f"{source.name}: is not what it was when the comparison began; leave it alone "
                "while it is compared, and start again"
            )
        _CHECKED.add(name)
    return opened.rows


def room_for_rows(n_rows: int, dims: tuple[int, int], machine: Machine) -> int:
    """Return how many bytes of rows may stay in memory while a pair is computed."""
    working = NULL_COPIES * 8 * sum(dims) * min(n_rows, MAX_NULL_ROWS) + BLOCKS_BYTES
    return max(machine.memory_bytes - working, 0) // 2


# Rows of files in memory, by content and order; the longest unused go first.
_ROWS: OrderedDict[str, ArrayRows] = OrderedDict()
_LOCK = threading.Lock()


def loaded_rows(view: View, room: int) -> Rows:
    """Return the rows of a view from memory, or read them into it where they have room."""
    with _LOCK:
        rows = _ROWS.get(view.key)
        if rows is not None:
            _ROWS.move_to_end(view.key)
            return rows
        n_bytes = sum(rows.values.nbytes for rows in _ROWS.values())
        while _ROWS and n_bytes > max(room - view.n_bytes, 0):
            n_bytes -= _ROWS.popitem(last=False)[1].values.nbytes
    if view.source.path is None or 2 * view.n_bytes > room:
        return view.rows
    rows = ArrayRows(view.rows.read(0, view.n_rows))
    with _LOCK:
        _ROWS[view.key] = rows
    return rows


def free_rows() -> None:
    """Free all cached rows."""
    with _LOCK:
        _ROWS.clear()


def in_tiles(pairs: Sequence[tuple[View, View]], machine: Machine) -> list[int]:
    """Return the numbers of pairs in the order in which the fewest rows are read.

    Where not all rows fit into the memory, pairs are walked tile by tile: a few views against a few
    others, so that a view is read once a tile instead of once a pair.
    """
    sizes = {view.key: view.n_bytes for pair in pairs for view in pair}
    if not sizes:
        return []
    room = min(
        room_for_rows(first.n_rows, (first.dim, second.dim), machine) for first, second in pairs
    )
    if sum(sizes.values()) <= room:
        return list(range(len(pairs)))
    side = max(room // (2 * max(sizes.values())), 1)
    place = {key: number for number, key in enumerate(sizes)}

    def tile(number: int) -> tuple[int, ...]:
        first, second = (place[view.key] for view in pairs[number])
        return first // side, second // side, first, second

    return sorted(range(len(pairs)), key=tile)
