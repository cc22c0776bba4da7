"""Kills a writer at random moments and checks what it leaves; started by test_kill.py.

Arguments: an empty folder, the number of kills, a seed. Prints the number of shards that every
kill left, -1 for one that came after the last step. A process of its own because it forks.
"""

import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from repalign.store.index import RowIndex
from repalign.store.reader import open_store, verify_store
from repalign.store.writer import StoreWriter, write_store
from tests.shards import SmallShards

SHARD_ROWS, N_SHARDS = 256, 12
N_ROWS = SHARD_ROWS * N_SHARDS - 100
SPEC = {"seed": 1}
VIEWS = {"a": 40, "b": 3}
OPTIONS = SmallShards(shard_rows=SHARD_ROWS)


def rows(start: int, stop: int) -> tuple[dict[str, np.ndarray], RowIndex]:
    number = np.arange(start, stop)
    views = {name: np.sin(number[:, None] * np.arange(1.0, d + 1)) for name, d in VIEWS.items()}
    index = RowIndex(number, number % 7, ids=np.array([f"row{i}" for i in number]))
    return views, index


def write(path: Path, tell: Callable[[], None]) -> None:
    """Begin or continue a store; ``tell`` is called after every step."""
    with StoreWriter(path, resume=True, spec=SPEC, views=VIEWS, options=OPTIONS) as writer:
        tell()
        for start in range(writer.n_rows, N_ROWS, 100):
            writer.append(*rows(start, min(N_ROWS, start + 100)))
            tell()
        writer.finish(on_progress=lambda done, total: tell())
    tell()


def killed_writer(path: Path, n_steps: int, delay: float) -> None:
    """Kill a writer a moment after its n-th step."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        write(path, lambda: os.write(writing, b"."))
        os._exit(0)
    os.close(writing)
    for _ in range(n_steps):
        os.read(reading, 1)
    until = time.perf_counter() + delay
    while time.perf_counter() < until:
        pass
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(reading)


def left_over(path: Path, folder: Path) -> int:
    """Check what a killed writer left, and return the number of its shards."""
    parts = folder / "run.h5.parts"
    if path.exists():
        assert verify_store(path).problems == ()
        return -1
    numbers = sorted(int(entry.name[5:10]) for entry in parts.glob("part-*.h5"))
    assert numbers == list(range(len(numbers))), numbers
    if numbers:
        assert verify_store(parts, allow_incomplete=True).problems == ()
        with open_store(parts, allow_incomplete=True) as store:
            n_rows = min(N_ROWS, SHARD_ROWS * len(numbers))
            assert len(store) == n_rows
            views, index = rows(0, n_rows)
            np.testing.assert_equal(store.index.slice(0, n_rows).columns, index.columns)
            for name, values in views.items():
                assert np.array_equal(store.view(name).read(0, n_rows), values.astype("f4"))
    return len(numbers)


def main(folder: Path, n_kills: int, seed: int) -> None:
    views, index = rows(0, N_ROWS)
    write_store(folder / "whole.h5", views, index=index, spec=SPEC)
    with open_store(folder / "whole.h5") as whole:
        fingerprint = whole.fingerprint
    steps: list[int] = []
    write(folder / "run.h5", lambda: steps.append(1))
    rng = random.Random(seed)
    path = folder / "run.h5"
    for _ in range(n_kills):
        path.unlink()
        killed_writer(path, rng.randrange(len(steps)), rng.random() * 0.01)
        print(left_over(path, folder))  # noqa: T201
        write(path, lambda: None)
        with open_store(path) as store:
            assert store.fingerprint == fingerprint
        assert sorted(entry.name for entry in folder.iterdir()) == ["run.h5", "whole.h5"]


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
