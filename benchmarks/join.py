"""Join two shuffled stores and read them in blocks: time beside the plain gather.

Run: python benchmarks/join.py [rows] [columns]
"""

import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from repalign.aliases import Rows
from repalign.store import write_store
from repalign.store.index import pooled_index
from repalign.store.matching import join_sources, match_rows
from repalign.store.open import open_embeddings
from repalign.store.rows import GatheredRows

BLOCK_ROWS = 8192


class NumberedRows:
    """Rows that are made when they are read: the number of the row plus that of the column."""

    def __init__(self, order: np.ndarray, dim: int) -> None:
        self._order = order
        self.shape = (len(order), dim)
        self.dtype = np.dtype(np.float32)

    def read(self, start: int, stop: int) -> np.ndarray:
        return self._values(self._order[start:stop])

    def take(self, rows: np.ndarray) -> np.ndarray:
        return self._values(self._order[rows])

    def _values(self, numbers: np.ndarray) -> np.ndarray:
        return numbers[:, None].astype(np.float32) + np.arange(self.shape[1], dtype=np.float32)


def write(path: Path, order: np.ndarray, dim: int) -> None:
    index = pooled_index(len(order), ids=[f"image-{row:08d}" for row in order.tolist()])
    write_store(path, {"final": NumberedRows(order, dim)}, index=index)


def read_all(*sides: Rows) -> float:
    """Return the seconds that reading all rows in blocks takes."""
    start = time.perf_counter()
    for row in range(0, sides[0].shape[0], BLOCK_ROWS):
        for side in sides:
            side.read(row, min(row + BLOCK_ROWS, side.shape[0]))
    return time.perf_counter() - start


def main(n_rows: int, dim: int) -> None:
    order = np.random.default_rng(0).permutation(n_rows)
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("a.h5", "b.h5")]
        write(paths[0], np.arange(n_rows), dim)
        write(paths[1], order, dim)
        print(f"two stores of {n_rows} x {dim}, {paths[0].stat().st_size / 2**20:.0f} MiB each")
        start = time.perf_counter()
        sources = [open_embeddings(path) for path in paths]
        join = join_sources(sources)
        print(f"open and match          {time.perf_counter() - start:8.2f} s")
        print(f"first pass, with a copy {read_all(*join.rows):8.2f} s ({join.report.access[1]})")
        print(f"later passes            {read_all(*join.rows):8.2f} s")
        positions = match_rows([source.index for source in sources], key="ids").positions[1]
        gathered = GatheredRows(sources[1].rows, positions)
        print(f"pass that only gathers  {read_all(sources[0].rows, gathered):8.2f} s")


if __name__ == "__main__":
    main(*(int(word) for word in (sys.argv[1:] + ["400000", "768"][len(sys.argv) - 1 :])))
