"""Two nodes by Ray's own test cluster: what is lost when processes die, and what it costs.

python benchmarks/cluster.py faults [--directory DIR]
python benchmarks/cluster.py overhead [--repeats 3] [--directory DIR]

``faults`` compares 20 stores and extracts one, each once undisturbed by this process alone and once
on two nodes, where a process is killed after a third of the work and a node is removed after half.
``overhead`` times the same comparison by two processes and by Ray, in turn, from a started engine
to the results, and with the start of both.
"""

import argparse
import json
import os
import secrets
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}

from marked import Counts, count, latest_process, marking
from study import make_stores

import repalign
from repalign.comparison.settings import CompareSettings
from repalign.engine.cache import Cache
from repalign.engine.engine import ProcessPool
from repalign.engine.ray import RayEngine
from repalign.engine.shards import extract_on_ray
from repalign.extraction.run import extract
from repalign.extraction.settings import ExtractProgress, ExtractSettings

CPUS = {"num_cpus": 1, "include_dashboard": False}
SETTINGS = CompareSettings(maps=("permutation", "rigid", "linear"), n_null=19, n_halves=19)


@contextmanager
def two_nodes() -> Iterator[tuple[str, Callable[[], None]]]:
    """Run a cluster of two nodes of a processor each; yield its address and how to remove one."""
    from ray.cluster_utils import Cluster

    with tempfile.TemporaryDirectory(prefix="repalign-nodes-", dir="/tmp") as folder:
        cluster = Cluster(initialize_head=True, head_node_args=CPUS | {"temp_dir": folder})
        second = cluster.add_node(**CPUS)
        try:
            yield cluster.address, lambda: cluster.remove_node(second, allow_graceful=False)
        finally:
            cluster.shutdown()
            time.sleep(2)  # its last processes still write


class Misfortune:
    """Kills a process after a third of the work and removes a node after half."""

    def __init__(self, victim: Callable[[], int | None], remove: Callable[[], None]) -> None:
        self._victim, self._remove = victim, remove
        self.told: list[str] = []

    def after(self, done: int, total: int) -> None:
        if not self.told and 3 * done >= total:
            victim = self._victim()
            if victim is not None:
                os.kill(victim, signal.SIGKILL)
                self.told.append(f"killed a process after {done} of {total}")
        elif len(self.told) == 1 and 2 * done >= total:
            self._remove()
            self.told.append(f"removed a node after {done} of {total}")


def compared(paths: list[Path], executor: Any) -> str:
    """Return the table of all pairs."""
    result = repalign.compare(*paths, settings=SETTINGS, executor=executor)
    return result.to_frame().to_csv()


def compare_faults(folder: Path, paths: list[Path], n_calls: int) -> dict[str, Any]:
    marks, kept = folder / "marks", Cache(folder / "kept", 2**31)
    marks.mkdir()
    with two_nodes() as (address, remove), RayEngine(cache=kept, address=address) as engine:
        misfortune = Misfortune(lambda: latest_process(marks), remove)
        is_over = threading.Event()

        def watch() -> None:
            while not is_over.wait(0.02):
                done = sum(path.name.endswith("~done") for path in marks.iterdir())
                misfortune.after(done, n_calls)

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            found = compared(paths, marking(engine, marks))
        finally:
            is_over.set()
            watcher.join()
    return {"what": misfortune.told, "found": found, "counts": count(marks)}


def run_compare(folder: Path) -> dict[str, Any]:
    paths = make_stores(folder, 20, 1, (1000, 48))
    alone = folder / "alone"
    alone.mkdir()
    with ProcessPool(2) as pool:
        plain = compared(paths, marking(pool, alone))
    undisturbed = count(alone)
    told = compare_faults(folder, paths, undisturbed.units)
    counts: Counts = told["counts"]
    return {
        "rows": len(plain.splitlines()) - 1,
        "equal to the last bit": told["found"] == plain,
        "happened": told["what"],
        "undisturbed": asdict(undisturbed),
        "disturbed": asdict(counts),
    }


def run_extract(folder: Path) -> dict[str, Any]:
    from repalign.zoo.shipped import shipped_path

    settings = ExtractSettings(
        str(shipped_path("gpt-neox-seed0")),
        "builtin:shakespeare",
        folder / "alone.h5",
        max_length=128,
        shard_samples=16,
        device="cpu",
    )
    plain = extract(settings)
    pids: list[int] = []
    shards: list[int] = []
    with two_nodes() as (address, remove):
        misfortune = Misfortune(lambda: pids[0] if pids else None, remove)

        def hear(progress: ExtractProgress) -> None:
            pids[:] = [int(name.rpartition("/")[2]) for name, _ in progress.workers]
            shards.append(progress.samples_done)
            misfortune.after(progress.samples_done, progress.samples_total)

        wanted = replace(settings, output=folder / "shared.h5")
        (found,) = extract_on_ray([wanted], RayEngine(2, address=address), hear)
    assert not isinstance(found, Exception), found
    return {
        "shards": -(-found.samples // 16),
        "shards reported": len(shards),
        "rows made": found.rows_new,
        "rows of the store": found.n_rows,
        "equal fingerprint": found.fingerprint == plain.fingerprint,
        "happened": misfortune.told,
    }


def run_overhead(folder: Path, repeats: int) -> Iterator[dict[str, Any]]:
    """Yield seconds of every run, by the clock and of all processors, then the ratios."""
    paths = make_stores(folder, 20, 1, (1000, 48))
    seconds: dict[tuple[str, str], list[float]] = {}
    tables = set()
    for _ in range(repeats):
        for name, make in (("pool", lambda: ProcessPool(2)), ("ray", lambda: RayEngine(2))):
            own, started = processor_seconds(), time.perf_counter()
            with make() as executor:
                begun = time.perf_counter()
                tables.add(compared(paths, executor))
                ended = time.perf_counter()
                used = processor_seconds() - own
            told = {"work": ended - begun, "all": time.perf_counter() - started, "processors": used}
            for what, value in told.items():
                seconds.setdefault((name, what), []).append(value)
            yield {name: {what: round(value, 1) for what, value in told.items()}}
    for what in ("work", "all", "processors"):
        ratio = min(seconds["ray", what]) / min(seconds["pool", what])
        yield {f"ratio of the best, {what}": round(ratio, 3)}
    yield {"equal to the last bit": len(tables) == 1}


def processor_seconds() -> float:
    """Return what this process and all that live below it have used."""
    parents, used = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            number = int(path.parent.name)
            parents[number], used[number] = int(fields[1]), int(fields[11]) + int(fields[12])
    ours = {os.getpid()}
    while more := {number for number, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return sum(used[number] for number in ours if number in used) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["faults", "overhead"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--directory", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="repalign-") as scratch:
        folder = given.directory or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        if given.what == "overhead":
            for told in run_overhead(folder, given.repeats):
                print(json.dumps(told), flush=True)
        else:
            print(json.dumps({"extract": run_extract(folder)}, indent=1), flush=True)
            print(json.dumps({"compare": run_compare(folder)}, indent=1))


if __name__ == "__main__":
    main()
