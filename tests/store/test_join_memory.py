"""Joining stores larger than the memory allowed: blocks only, whatever their order."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from repalign.store import write_store
from repalign.store.index import pooled_index

N_ROWS, DIM = 120_000, 768
STORE_MIB = N_ROWS * DIM * 4 / 2**20  # 352 MiB each
LIMIT_MIB = 160

READ_ALL = """
import json, resource, sys
import numpy as np
from repalign.store.matching import join_sources
from repalign.store.open import open_embeddings

def peak_mib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

import pandas  # loaded by the first join; its own memory is not the join's
before = peak_mib()
join = join_sources([open_embeddings(path) for path in sys.argv[1:3]])
n_wrong = 0
for start in range(0, join.report.n_common, 8192):
    stop = min(start + 8192, join.report.n_common)
    source, target = join.source.read(start, stop), join.target.read(start, stop)
    n_wrong += int((source != target).any(axis=1).sum())
print(json.dumps([n_wrong, join.report.access[1], peak_mib() - before]))
"""


class NumberedRows:
    """Rows that are made when they are read: the number of the row in every column."""

    def __init__(self, order: np.ndarray) -> None:
        self._order = order
        self.shape = (len(order), DIM)
        self.dtype = np.dtype(np.float32)

    def read(self, start: int, stop: int) -> np.ndarray:
        return np.repeat(self._order[start:stop, None].astype(np.float32), DIM, axis=1)

    def take(self, rows: np.ndarray) -> np.ndarray:
        return np.repeat(self._order[rows, None].astype(np.float32), DIM, axis=1)


@pytest.mark.slow
def test_shuffled_stores_are_joined_in_less_memory_than_one_of_them(tmp_path: Path) -> None:
    shuffled = np.random.default_rng(0).permutation(N_ROWS)
    for name, order in (("a.h5", np.arange(N_ROWS)), ("b.h5", shuffled)):
        index = pooled_index(N_ROWS, ids=[f"image-{row}" for row in order.tolist()])
        write_store(tmp_path / name, {"final": NumberedRows(order)}, index=index)

    run = subprocess.run(
        [sys.executable, "-c", READ_ALL, tmp_path / "a.h5", tmp_path / "b.h5"],
        capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    n_wrong, access, peak_mib = json.loads(run.stdout)

    assert (n_wrong, access) == (0, "reordered copy")
    assert peak_mib < LIMIT_MIB < STORE_MIB
