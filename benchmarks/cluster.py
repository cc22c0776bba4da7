"""Two nodes by Ray's own test cluster: what is lost when processes and nodes die, and what it costs.

python benchmarks/cluster.py faults [--directory DIR]
python benchmarks/cluster.py overhead [--repeats 3] [--directory DIR]

``faults`` compares 20 stores and extracts one, each once undisturbed by this process alone and once
on two nodes, where a process is killed after a third of the work and a node is removed after half.
``overhead`` times the same comparison by two processes and by Ray, in turn, from a started executor
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
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}

from marked import Counts, Marking, count, latest_process  # noqa: E402
from study import make_stores  # noqa: E402

import repalign  # noqa: E402
from repalign.workflows.compare.settings import CompareSettings  # noqa: E402
from repalign.workflows.engines.ray_shards import Actors, extract_on_ray  # noqa: E402
from repalign.workflows.engines.ray_tasks import RayTasks  # noqa: E402
from repalign.workflows.executor import ProcessPool  # noqa: E402
from repalign.workflows.extract.run import extract  # noqa: E402
from repalign.workflows.extract.settings import ExtractProgress, ExtractSettings  # noqa: E402
from repalign.workflows.machine import Machine  # noqa: E402
from repalign.workflows.study.cache import WorkCache  # noqa: E402
from repalign.workflows.study.remembering import Remembering  # noqa: E402

CPUS = {"num_cpus": 1, "include_dashboard": False}
SETTINGS = CompareSettings(maps=("permutation", "rigid", "linear"), n_null=19, n_refits=19)


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


def compared(paths: list[Path], executor: Any, machine: Machine | None = None) -> str:
    """Return the table of all pairs."""
    result = repalign.compare(*paths, settings=SETTINGS, machine=machine, executor=executor)
    return result.to_frame().to_csv()


def compare_faults(folder: Path, paths: list[Path], n_units: int) -> dict[str, Any]:
    marks, kept = folder / "marks", WorkCache(folder / "kept", 2**31)
    marks.mkdir()
    with two_nodes() as (address, remove), RayTasks(address=address) as tasks:
        misfortune = Misfortune(lambda: latest_process(marks), remove)
        is_over = threading.Event()

        def watch() -> None:
            while not is_over.wait(0.02):
                done = sum(path.name.endswith("~done") for path in marks.iterdir())
                misfortune.after(done, n_units)

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            found = compared(paths, Marking(Remembering(tasks, kept), marks))
        finally:
            is_over.set()
            watcher.join()
    return {"what": misfortune.told, "found": found, "counts": count(marks)}


def run_compare(folder: Path) -> dict[str, Any]:
    paths = make_stores(folder, 20, 1, (1000, 48))
    alone = folder / "alone"
    alone.mkdir()
    with ProcessPool(2) as pool:
        plain = compared(paths, Marking(pool, alone))
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
        (found,) = extract_on_ray([wanted], Actors(2, address=address), hear)
    assert not isinstance(found, Exception), found
    return {
        "shards": -(-found.samples // 16),
        "shards reported": len(shards),
        "rows": found.rows_new,
        "equal fingerprint": found.fingerprint == plain.fingerprint,
        "happened": misfortune.told,
    }


def run_overhead(folder: Path, repeats: int) -> dict[str, Any]:
    paths = make_stores(folder, 20, 1, (1000, 48))
    seconds: dict[str, list[float]] = {}
    tables = set()
    for _ in range(repeats):
        for name, make in (("pool", lambda: ProcessPool(2)), ("ray", lambda: RayTasks(2))):
            started = time.perf_counter()
            with make() as executor:
                executor.map([], Machine())
                begun = time.perf_counter()
                tables.add(compared(paths, executor))
                seconds.setdefault(f"{name}, work", []).append(time.perf_counter() - begun)
            seconds.setdefault(f"{name}, all", []).append(time.perf_counter() - started)
    best = {name: min(values) for name, values in seconds.items()}
    return {
        "seconds": {name: [round(v, 1) for v in values] for name, values in seconds.items()},
        "ratio of the best, work": round(best["ray, work"] / best["pool, work"], 3),
        "ratio of the best, all": round(best["ray, all"] / best["pool, all"], 3),
        "equal to the last bit": len(tables) == 1,
    }


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
            print(json.dumps(run_overhead(folder, given.repeats), indent=1))
        else:
            print(json.dumps({"extract": run_extract(folder)}, indent=1), flush=True)
            print(json.dumps({"compare": run_compare(folder)}, indent=1))


if __name__ == "__main__":
    main()
