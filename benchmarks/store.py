"""Bandwidth and memory of a store of 1,000,000 x 768 float32, against plain h5py and a file copy.

Run from the top of the project (about 20 GB of disk are used in passing)::

    python benchmarks/store.py --directory /tmp

Every phase runs in a process of its own, in turn with the phase it is compared with; figures are
medians over the rounds after a first one, which is not counted. The page cache is warm, and both
sides end with an fsync when they write.
"""

import argparse
import hashlib
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import h5py
import numpy as np

from repalign.store import StoreWriter, WriteOptions, open_store, pack_store
from repalign.store.format import chunk_rows

DIM = 768
BLOCK_ROWS = 8192
GOALS = {"shard writing": 0.5, "verified reading": 0.7, "packing": 0.5}
MEMORY_GOAL = 2**30


def blocks(n_rows: int) -> Iterator[tuple[int, np.ndarray]]:
    """Yield blocks that differ, at no cost: windows into one random array."""
    source = np.random.default_rng(0).standard_normal((BLOCK_ROWS + 64, DIM), dtype=np.float32)
    for number, start in enumerate(range(0, n_rows, BLOCK_ROWS)):
        shift = number % 64
        yield start, source[shift : shift + min(BLOCK_ROWS, n_rows - start)]


def sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)


def plain_write(folder: Path, n_rows: int, *, chunked: bool) -> None:
    path = folder / ("chunked.h5" if chunked else "contiguous.h5")
    chunks = (chunk_rows(DIM * 4), DIM) if chunked else None
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("x", (n_rows, DIM), np.float32, chunks=chunks)
        for start, block in blocks(n_rows):
            dataset[start : start + len(block)] = block
    sync(path)


def store_write(folder: Path, n_rows: int) -> None:
    with StoreWriter(
        folder / "shards", spec={"bench": 1}, views={"x": DIM}, options=WriteOptions()
    ) as writer:
        for _, block in blocks(n_rows):
            writer.append({"x": block})


def plain_read(folder: Path, n_rows: int, *, chunked: bool) -> None:
    with h5py.File(folder / ("chunked.h5" if chunked else "contiguous.h5"), "r") as file:
        dataset = file["x"]
        for start in range(0, n_rows, BLOCK_ROWS):
            dataset[start : start + BLOCK_ROWS]


def store_read(folder: Path, n_rows: int, *, name: str) -> None:
    with open_store(folder / name) as store:
        view = store.view("x")
        for start in range(0, n_rows, BLOCK_ROWS):
            view.read(start, min(n_rows, start + BLOCK_ROWS))


def copy(folder: Path, n_rows: int) -> None:
    shutil.copyfile(folder / "chunked.h5", folder / "copy.h5")
    sync(folder / "copy.h5")


def pack(folder: Path, n_rows: int) -> None:
    pack_store(folder / "shards", folder / "packed.h5")


PHASES: dict[str, Callable[[Path, int], None]] = {
    "plain write, chunked": lambda f, n: plain_write(f, n, chunked=True),
    "plain write, contiguous": lambda f, n: plain_write(f, n, chunked=False),
    "shard writing": store_write,
    "file copy": copy,
    "packing": pack,
    "plain read, chunked": lambda f, n: plain_read(f, n, chunked=True),
    "plain read, contiguous": lambda f, n: plain_read(f, n, chunked=False),
    "verified reading": lambda f, n: store_read(f, n, name="packed.h5"),
    "verified reading, shards": lambda f, n: store_read(f, n, name="shards"),
}
OUTPUTS = {
    "plain write, chunked": "chunked.h5",
    "plain write, contiguous": "contiguous.h5",
    "shard writing": "shards",
    "file copy": "copy.h5",
    "packing": "packed.h5",
}
COMPARED = [
    ("shard writing", "plain write, chunked"),
    ("shard writing", "plain write, contiguous"),
    ("packing", "file copy"),
    ("verified reading", "plain read, chunked"),
    ("verified reading", "plain read, contiguous"),
    ("verified reading, shards", "plain read, chunked"),
]


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def run_phase(name: str, folder: Path, n_rows: int) -> None:
    """Run one phase in this process and print its seconds and memory."""
    before = peak()
    started = time.perf_counter()
    PHASES[name](folder, n_rows)
    seconds = time.perf_counter() - started
    print(json.dumps({"seconds": seconds, "memory": peak() - before}))


def measure(name: str, folder: Path, n_rows: int) -> dict[str, float]:
    # What an earlier phase left to write or to free is not this one's cost; and every phase that
    # writes finds as many pages that were just freed, which on a virtual machine are the fast ones.
    if name in OUTPUTS and (folder / OUTPUTS[name]).exists():
        output = folder / OUTPUTS[name]
        shutil.rmtree(output) if output.is_dir() else output.unlink()
    os.sync()
    command = [sys.executable, __file__, "--phase", name, "--directory", str(folder)]
    done = subprocess.run(
        [*command, "--rows", str(n_rows)], check=True, capture_output=True, text=True
    )
    return json.loads(done.stdout)


def machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    data = bytes(2**27)
    started = time.perf_counter()
    hashlib.sha256(data).digest()
    speed = len(data) / 1e9 / (time.perf_counter() - started)
    return (
        f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, {memory:.0f} GiB, "
        f"Python {platform.python_version()}, h5py {h5py.version.version}, "
        f"HDF5 {h5py.version.hdf5_version}, sha256 {speed:.1f} GB/s on one core"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--directory", type=Path, default=None, help="where to write")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--phase", choices=PHASES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.phase:
        run_phase(arguments.phase, arguments.directory, arguments.rows)
        return
    gigabytes = arguments.rows * DIM * 4 / 1e9
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in PHASES}
    with tempfile.TemporaryDirectory(dir=arguments.directory) as folder:
        for number in range(arguments.rounds + 1):
            for name in PHASES:
                result = measure(name, Path(folder), arguments.rows)
                if number:
                    runs[name].append(result)
    print(f"{arguments.rows} x {DIM} float32 = {gigabytes:.2f} GB in blocks of {BLOCK_ROWS} rows")
    print(machine())
    print(f"{'phase':28}{'GB/s':>8}{'  (each round)':24}{'MiB above imports':>18}")
    speed = {}
    for name, results in runs.items():
        each = [gigabytes / result["seconds"] for result in results]
        speed[name] = statistics.median(each)
        memory = max(result["memory"] for result in results) / 2**20
        rounds = " ".join(f"{value:.2f}" for value in each)
        print(f"{name:28}{speed[name]:8.2f}  {rounds:22}{memory:18.0f}")
    for ours, theirs in COMPARED:
        goal = GOALS[ours.split(",")[0]]
        ratio = speed[ours] / speed[theirs]
        verdict = "reached" if ratio >= goal else "NOT reached"
        print(f"{ours} / {theirs}: {ratio:.2f} (goal {goal}: {verdict})")
    worst = max(
        r["memory"] for n in ("shard writing", "packing", "verified reading") for r in runs[n]
    )
    verdict = "reached" if worst < MEMORY_GOAL else "NOT reached"
    print(f"peak memory: {worst / 2**20:.0f} MiB (goal 1024: {verdict})")


if __name__ == "__main__":
    main()
