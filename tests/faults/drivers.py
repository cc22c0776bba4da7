"""The drivers that lie beside what they attack: damaged stores, killed writers."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from repalign.store import WriteOptions, write_store
from repalign.store.joining.index import RowIndex
from tests.faults.counts import Counts

ROOT = Path(__file__).parents[2]
STORES = ROOT / "tests" / "store"
DAMAGES = ("flip", "cut", "splice")


def damage_stores(folder: Path, count: int, *, seed: int = 0) -> Counts:
    """Read damaged stores; the worker ends at the first wrong value, other failure or hang."""
    counts = Counts("stores (HDF5, manifest)")
    targets = _stores(folder)
    share = max(1, count // (len(targets) * len(DAMAGES)))
    for target in targets:
        for damage in DAMAGES:
            done = _run(STORES / "reading" / "fuzz_worker.py", target, damage, seed, share)
            if done.returncode:
                what = f"{target.name}, {damage}, seed {seed}: {done.stderr.strip()[-300:]}"
                counts.add(_kind(done), what)
                continue
            refused = int(done.stdout)
            counts.counted.update({"refused": refused, "equal": share - refused})
    return counts


def kill_writers(folder: Path, count: int, *, seed: int = 0) -> Counts:
    """Kill writers of a store at random moments; what is left must continue to the same rows."""
    counts = Counts("killed writers")
    place = folder / "kills"
    place.mkdir()
    done = _run(STORES / "writing" / "kill_worker.py", place, count, seed)
    if done.returncode:
        counts.add(_kind(done), done.stderr.strip()[-300:])
    else:
        counts.counted["equal"] += len(done.stdout.split())
    return counts


def _kind(done: "subprocess.CompletedProcess[str]") -> str:
    if done.returncode < 0:
        return "hang"
    return "wrong" if "values" in done.stderr else "traceback"


def _stores(folder: Path) -> list[Path]:
    rng = np.random.default_rng(0)

    def write(name: str, n_rows: int, **options: object) -> Path:
        views = {"v": rng.standard_normal((n_rows, 3), dtype=np.float32)}
        ids = np.array([f"id{i}" for i in range(n_rows)])
        index = RowIndex(sample=np.arange(n_rows), token=np.full(n_rows, -1), ids=ids)
        settings = WriteOptions(licence="none", **options)
        write_store(folder / name, views, index=index, spec={"seed": 1}, options=settings)
        return folder / name

    shards = write("run", 200, shard_rows=64)
    return [
        write("tiny.h5", 3),
        write("chunks.h5", 9000),
        write("gzip.h5", 5000, compression="gzip"),
        shards / "part-00001.h5",
        shards / "manifest.json",
    ]


def _run(worker: Path, *arguments: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, str(worker), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
