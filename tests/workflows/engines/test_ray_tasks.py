"""Units as tasks of Ray: the same results, failures in one line, and what is lost is done again."""

import contextlib
import importlib.util
import os
import re
import signal
import socket
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from repalign import compare, write_store
from repalign.exceptions import InputError, MissingExtraError, RepalignError
from repalign.workflows.compare.settings import CompareSettings
from repalign.workflows.engines import cluster
from repalign.workflows.engines.opening import Engine
from repalign.workflows.engines.parcels import Packer, unpack
from repalign.workflows.engines.ray_tasks import RayTasks
from repalign.workflows.executor import InProcess, ProcessPool
from repalign.workflows.machine import Machine
from repalign.workflows.study.cache import WorkCache
from repalign.workflows.study.remembering import Remembering

if importlib.util.find_spec("ray") is None:
    pytest.skip("Ray is not installed", allow_module_level=True)

CHEAP = CompareSettings(maps=("rigid", "linear"), n_null=3, n_halves=2, starts=1)


@pytest.fixture(scope="module")
def tasks():
    """One cluster of this machine for all tests, that lasts some seconds to start."""
    with RayTasks(2) as engine:
        yield engine


class Writing:
    """A unit that leaves a mark each time it runs, and may end its process or fail."""

    stage = "writing"

    def __init__(self, number: int, folder: Path, how: str = "") -> None:
        self.number, self.folder, self.how = number, folder, how
        self.key = f"writing-{number}"
        self.shared = np.zeros(0)

    def run(self, machine: Machine) -> tuple[int, float, int]:
        import torch

        marks = self.folder / f"{self.number}-{os.getpid()}"
        marks.write_text("x")
        if self.how == "dies once" and len(list(self.folder.glob(f"{self.number}-*"))) == 1:
            os._exit(9)
        if self.how == "dies":
            os._exit(9)
        if self.how == "fails":
            raise MissingExtraError("lightgbm", extra="deconfound", purpose="this")
        return self.number, float(self.shared.sum()), torch.get_num_threads()


def marks(folder: Path) -> list[int]:
    return sorted(int(path.name.split("-")[0]) for path in folder.iterdir())


@pytest.mark.slow
def test_results_come_in_order_from_processes_of_one_thread(tasks, tmp_path: Path) -> None:
    shared, told = np.ones(50_000), []
    units = [Writing(number, tmp_path) for number in range(9)]
    for unit in units:
        unit.shared = shared
    before = tasks.shared_bytes
    found = tasks.map(units, Machine(on_stage=lambda *said: told.append(said)))
    assert found == [(number, 50_000.0, 1) for number in range(9)]
    assert told[0] == ("writing", 0, 9)
    assert told[-1] == ("writing", 9, 9)
    assert tasks.shared_bytes - before == shared.nbytes  # once, not nine times


@pytest.mark.slow
def test_a_comparison_is_that_of_one_process_to_the_last_bit(tasks, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    shared = rng.laplace(size=(150, 4))
    paths = []
    for number in range(4):
        paths.append(tmp_path / f"m{number}.h5")
        values = shared @ rng.normal(size=(4, 4)) + 0.1 * rng.normal(size=(150, 4))
        write_store(paths[-1], {"final": values.astype(np.float32)})
    inputs = [*paths, shared[:, :3]]
    settings = replace(CHEAP, maps=("rigid", "linear", "ica"))
    here = compare(*inputs, settings=settings, executor=InProcess())
    there = compare(*inputs, settings=settings, executor=tasks)
    assert there.to_frame().to_csv() == here.to_frame().to_csv()
    assert len(here.records) == 10 * 3 * 2


@pytest.mark.slow
def test_a_lost_process_costs_only_its_unit(tasks, tmp_path: Path) -> None:
    folder = tmp_path / "marks"
    folder.mkdir()
    units = [Writing(number, folder, "dies once" if number == 4 else "") for number in range(70)]
    executor = Remembering(tasks, WorkCache(tmp_path / "kept", 2**20))
    found = executor.map(units, Machine())
    assert [number for number, _, _ in found] == list(range(70))
    done = marks(folder)
    assert done.count(4) == 2
    # a task of several units began with some that were done, and found them
    assert sorted(set(done)) == list(range(70))
    assert len(done) == 71


@pytest.mark.slow
def test_failures_are_one_line(tasks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    units = [Writing(0, tmp_path), Writing(1, tmp_path, "fails"), Writing(2, tmp_path, "fails")]
    with pytest.raises(MissingExtraError, match="this needs the package lightgbm"):
        tasks.map(units, Machine())
    with pytest.raises(RepalignError, match=r"was lost 4 times .* which goes on"):
        tasks.map([Writing(3, tmp_path, "dies")], Machine())
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    monkeypatch.setattr(Path, "cwd", lambda: gone)
    with pytest.raises(InputError, match=r"has no folder .*gone, where the command was started"):
        tasks.map([Writing(0, tmp_path)], Machine())


@pytest.mark.slow
def test_a_second_cluster_is_refused_and_leaves_no_files(
    tasks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "_short_temporary", lambda: tmp_path)
    with pytest.raises(InputError, match="connected to Ray already"), RayTasks(1):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_cluster_of_this_machine_is_private(tasks) -> None:
    import ray

    nodes = ray.nodes()
    assert [node["NodeManagerAddress"] for node in nodes] == ["127.0.0.1"]
    assert os.environ["RAY_AUTH_MODE"] == "token"
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
    assert nodes[0]["Resources"]["object_store_memory"] <= cluster.OBJECT_STORE_BYTES
    sockets = Path(nodes[0]["RayletSocketName"])
    assert any(folder.stat().st_mode & 0o077 == 0 for folder in sockets.parents)  # others stay out


@pytest.mark.slow
def test_a_cluster_of_this_machine_listens_on_loopback_and_runs_what_is_needed(tasks) -> None:
    ours = family(os.getpid())
    assert {"gcs_server", "raylet"} <= {Path(line.split()[0]).name for line in ours.values()}
    assert not [line for line in ours.values() if re.search(r"monitor\.py|dashboard\.py", line)]
    sockets = {
        link[8:-1]
        for pid in ours
        for path in Path(f"/proc/{pid}/fd").glob("*")
        if (link := str(path.readlink()) if path.is_symlink() else "").startswith("socket:[")
    }
    listening = [
        fields[1].rpartition(":")[0]
        for name in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]
        if (fields := line.split())[3] == "0A" and fields[9] in sockets
    ]
    loopback = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}
    assert len(listening) > 3
    assert set(listening) <= loopback


def family(root: int) -> dict[int, str]:
    """Return the command lines of a process and of all below it."""
    parents, lines = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            stat = (folder / "stat").read_text().rpartition(")")[2].split()
            parents[int(folder.name)] = int(stat[1])
            lines[int(folder.name)] = (folder / "cmdline").read_text().replace("\0", " ").strip()
    ours = {root}
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return {pid: lines[pid] for pid in ours if lines.get(pid)}


@pytest.mark.slow
def test_a_cluster_that_does_not_start_is_one_line(tasks, monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    def fail(**options: object) -> None:
        raise Exception("The current node timed out\nmore")

    monkeypatch.setattr(ray, "init", fail)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    with pytest.raises(
        RepalignError, match=r"machine: The current node timed out; .*--engine ray$"
    ):
        RayTasks(1).__enter__()
    with pytest.raises(RepalignError, match="no connection to 'auto': The current node"):
        RayTasks(address="auto").__enter__()


def test_an_address_at_which_nothing_listens_is_told_at_once(monkeypatch) -> None:
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    monkeypatch.setattr("ray.shutdown", lambda: None)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    started = time.monotonic()
    with pytest.raises(RepalignError, match=rf"no connection to '127.0.0.1:{port}': .*refused"):
        RayTasks(address=f"127.0.0.1:{port}").__enter__()
    assert time.monotonic() - started < 20


def test_ray_does_not_answer_for_the_command_when_it_is_told_to_end(monkeypatch) -> None:
    import ray

    def connect(*told: object, **more: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # as it takes over the signal

    for name, value in (
        ("is_initialized", lambda: False),
        ("shutdown", lambda: None),
        ("init", connect),
    ):
        monkeypatch.setattr(ray, name, value)
    before = signal.getsignal(signal.SIGTERM)
    with RayTasks(address="auto"):
        assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", None])
def test_an_address_at_which_something_else_listens_is_told(monkeypatch, answer) -> None:
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    monkeypatch.setattr("ray.shutdown", lambda: None)
    monkeypatch.setattr("repalign.workflows.engines.cluster.SECONDS_TO_ANSWER", 1)
    with socket.create_server(("127.0.0.1", 0)) as other:

        def serve() -> None:
            connection, _ = other.accept()
            if answer is None:  # never a word
                time.sleep(2)
            else:
                connection.recv(1000)
                connection.sendall(answer)
            connection.close()

        server = threading.Thread(target=serve)
        server.start()
        with pytest.raises(RepalignError, match="what listens there is not Ray"):
            RayTasks(address=f"127.0.0.1:{other.getsockname()[1]}").__enter__()
        server.join()


def test_wrong_engines_are_refused_before_anything_starts() -> None:
    for wrong in ({"workers": 0}, {"threads": 0}):
        with pytest.raises(InputError, match=r"got 0, expected at least 1"):
            RayTasks(**wrong)
    with pytest.raises(InputError, match="workers: got 0, expected at least 1"):
        Engine(workers=0)
    with pytest.raises(InputError, match="use it in a with block"):
        RayTasks(1).map([], Machine())
    with pytest.raises(InputError, match="expected host:port or auto"), RayTasks(address="ray://x"):
        pass
    with pytest.raises(InputError, match="engine: got 'dask', expected local or ray"):
        Engine("dask")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="--ray-address is of --engine ray"):
        Engine(ray_address="auto")
    assert Engine("ray").warnings == ()
    (warning,) = Engine("ray", ray_address="auto").warnings
    assert "whoever reaches a Ray cluster can run code on it: keep auto inside" in warning
    assert isinstance(Engine().open(), InProcess)
    assert isinstance(Engine(workers=2).open(), ProcessPool)
    assert isinstance(Engine("ray", workers=2).open(), RayTasks)


def test_without_ray_its_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match="pip install ray"), RayTasks(1):
        pass


def test_without_shared_memory_the_object_store_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "SHARED_MEMORY", "/nowhere/at/all")
    assert cluster.object_store_bytes() == cluster.SMALLEST_STORE


def test_small_arrays_travel_with_their_unit() -> None:
    packer = Packer()
    parcel = packer.pack([np.arange(10), np.arange(3)])
    assert (parcel.arrays, packer.shared_bytes) == ((), 0)
    assert [list(each) for each in unpack(parcel.content, ())] == [list(range(10)), [0, 1, 2]]


def test_what_ray_says_of_dead_processes_stays_off_standard_output(
    capsys: pytest.CaptureFixture[str],
) -> None:
    import threading

    shown = cluster.WithoutRay(sys.stdout)
    shown.write("a,b\n")
    said = threading.Thread(
        target=lambda: print("(raylet) A worker died\nand\nmore", file=shown),
        name=cluster.LISTENER,
    )
    said.start()
    said.join()
    shown.flush()
    out, err = capsys.readouterr()
    assert (out, err) == ("a,b\n", "(raylet) A worker died\n")
