"""In which order pairs are computed, and which rows stay in memory meanwhile.

Pairs are walked tile by tile: a few views against a few others, as many as the memory holds, so
that the rows of a view are read once a tile instead of once a pair.
"""

import threading
from collections import OrderedDict
from collections.abc import Sequence

from repalign.aliases import Rows
from repalign.rows import ArrayRows
from repalign.workflows.compare.aligned import AlignedPair, Space
from repalign.workflows.compare.nulls import COPIES, MAX_NULL_ROWS
from repalign.workflows.machine import Machine

# Blocks of rows, what is multiplied with them, and decompositions that are remembered.
BLOCKS_BYTES = 2**28


def room_for_rows(n_rows: int, dims: tuple[int, int], machine: Machine) -> int:
    """Return how many bytes of rows may stay in memory while a pair is computed."""
    working = COPIES * 8 * sum(dims) * min(n_rows, MAX_NULL_ROWS) + BLOCKS_BYTES
    return max(machine.memory_bytes - working, 0) // 2


def tile_order(pairs: Sequence[AlignedPair], machine: Machine) -> list[int]:
    """Return the numbers of the pairs in the order in which they are best computed."""
    sizes: dict[str, int] = {}
    for pair in pairs:
        for space in pair.spaces:
            sizes.setdefault(space.key, _n_bytes(space))
    if not sizes:
        return []
    room = min(room_for_rows(pair.n_rows, pair.dims, machine) for pair in pairs)
    if sum(sizes.values()) <= room:
        return list(range(len(pairs)))
    side = max(room // (2 * max(sizes.values())), 1)
    place = {key: number for number, key in enumerate(sizes)}

    def where(number: int) -> tuple[int, ...]:
        first, second = (place[space.key] for space in pairs[number].spaces)
        return first // side, second // side, first, second

    return sorted(range(len(pairs)), key=where)


def _n_bytes(space: Space) -> int:
    return space.n_rows * space.dim * space.source.rows.dtype.itemsize


class _Held:
    """Rows of files in memory, by content and order; the longest unused go first."""

    def __init__(self) -> None:
        self._rows: OrderedDict[str, ArrayRows] = OrderedDict()
        self._lock = threading.Lock()

    def rows(self, space: Space, room: int) -> Rows:
        """Return the rows of a space from memory, or read them into it where they have room."""
        size = _n_bytes(space)
        with self._lock:
            known = self._rows.get(space.key)
            if known is not None:
                self._rows.move_to_end(space.key)
                return known
            self._free(room - size)
        if space.source.path is None or 2 * size > room:
            return space.rows
        found = ArrayRows(space.rows.read(0, space.n_rows))
        with self._lock:
            self._rows[space.key] = found
        return found

    def _free(self, room: int) -> None:
        held = sum(each.values.nbytes for each in self._rows.values())
        while self._rows and held > max(room, 0):
            held -= self._rows.popitem(last=False)[1].values.nbytes

    def forget(self) -> None:
        """Let all rows go."""
        with self._lock:
            self._rows.clear()


HELD = _Held()
