"""Calls as tasks of Ray: the same results, failures in one line, and what is lost is done again."""

import contextlib
import importlib.util
import os
import signal
import socket
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from repalign import compare, write_store
from repalign.comparison.settings import CompareSettings
from repalign.engine import ray as ray_engine
from repalign.engine.engine import Engine, ProcessPool
from repalign.engine.machine import Machine
from repalign.engine.opening import address_warnings, choose_engine
from repalign.engine.ray import RayEngine
from repalign.exceptions import InputError, MissingExtraError, RepalignError

if importlib.util.find_spec("ray") is None:
    pytest.skip("Ray is not installed", allow_module_level=True)

CHEAP = CompareSettings(maps=("rigid", "linear"), n_null=3, n_halves=2, starts=1)


@pytest.fixture(scope="module")
def tasks():
    """One cluster of this machine for all tests, that lasts some seconds to start."""
    with RayEngine(2) as engine:
        yield engine


def write(
    machine: Machine, item: tuple[int, Path, str], *shared: np.ndarray
) -> tuple[int, float, int]:
    """Leave a mark, and end the process or fail if asked to."""
    import torch

    number, folder, how = item
    (folder / f"{number}-{os.getpid()}").write_text("x")
    if how == "dies once" and len(list(folder.glob(f"{number}-*"))) == 1:
        os._exit(9)
    if how == "dies":
        os._exit(9)
    if how == "fails":
        raise MissingExtraError("lightgbm", extra="deconfound", purpose="this")
    return number, float(sum(values.sum() for values in shared)), torch.get_num_threads()


def marks(folder: Path) -> list[int]:
    return sorted(int(path.name.split("-")[0]) for path in folder.iterdir())


@pytest.mark.slow
def test_results_come_in_order_from_processes_of_one_thread(
    tasks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    put, put_bytes, progress = ray.put, [], []

    def counted(value: np.ndarray) -> object:
        put_bytes.append(value.nbytes)
        return put(value)

    monkeypatch.setattr(ray, "put", counted)
    shared = np.ones(50_000)
    items = [(number, tmp_path, "") for number in range(9)]
    machine = Machine(on_stage=lambda *call: progress.append(call))
    results = tasks.map("writing", write, items, machine, shared=lambda item: (shared,))
    assert results == [(number, 50_000.0, 1) for number in range(9)]
    assert progress[0] == ("writing", 0, 9)
    assert progress[-1] == ("writing", 9, 9)
    assert put_bytes == [shared.nbytes]  # once, not nine times


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
    here = compare(*inputs, settings=settings, executor=Engine())
    there = compare(*inputs, settings=settings, executor=tasks)
    assert there.to_frame().to_csv() == here.to_frame().to_csv()
    assert len(here.records) == 10 * 3 * 2


@pytest.mark.slow
def test_a_lost_process_costs_only_its_call(tasks, tmp_path: Path) -> None:
    folder = tmp_path / "marks"
    folder.mkdir()
    items = [(number, folder, "dies once" if number == 4 else "") for number in range(30)]
    results = tasks.map("writing", write, items, Machine())
    assert [number for number, _, _ in results] == list(range(30))
    assert marks(folder) == sorted([*range(30), 4])


@pytest.mark.slow
def test_failures_are_one_line(tasks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    items = [(0, tmp_path, ""), (1, tmp_path, "fails"), (2, tmp_path, "fails")]
    with pytest.raises(MissingExtraError, match="lightgbm"):
        tasks.map("writing", write, items, Machine())
    with pytest.raises(RepalignError, match="lost 4 times"):
        tasks.map("writing", write, [(3, tmp_path, "dies")], Machine())
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    monkeypatch.setattr(Path, "cwd", lambda: gone)
    with pytest.raises(InputError, match=r"folder .*gone"):
        tasks.map("writing", write, [(0, tmp_path, "")], Machine())


@pytest.mark.slow
def test_a_second_cluster_is_refused_and_leaves_no_files(
    tasks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_engine, "_short_temporary", lambda: tmp_path)
    with pytest.raises(InputError, match=r"connected .*already"), RayEngine(1):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_cluster_of_this_machine_is_private(tasks) -> None:
    import ray

    nodes = ray.nodes()
    assert [node["NodeManagerAddress"] for node in nodes] == ["127.0.0.1"]
    assert os.environ["RAY_AUTH_MODE"] == "token"
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
    assert nodes[0]["Resources"]["object_store_memory"] <= ray_engine.OBJECT_STORE_BYTES
    sockets = Path(nodes[0]["RayletSocketName"])
    assert any(folder.stat().st_mode & 0o077 == 0 for folder in sockets.parents)  # others stay out


@pytest.mark.slow
def test_a_cluster_of_this_machine_listens_on_loopback(tasks) -> None:
    ours = family(os.getpid())
    assert {"gcs_server", "raylet"} <= {Path(line.split()[0]).name for line in ours.values()}
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
    with pytest.raises(RepalignError, match=r"timed out; .*--engine ray$"):
        RayEngine(1).__enter__()
    with pytest.raises(RepalignError, match=r"'auto': .*current node"):
        RayEngine(address="auto").__enter__()


def test_an_address_at_which_nothing_listens_is_told_at_once(monkeypatch) -> None:
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    monkeypatch.setattr("ray.shutdown", lambda: None)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    started = time.monotonic()
    with pytest.raises(RepalignError, match=rf"'127.0.0.1:{port}': .*refused"):
        RayEngine(address=f"127.0.0.1:{port}").__enter__()
    assert time.monotonic() - started < 20


def test_ray_does_not_answer_for_the_command_when_it_is_told_to_end(monkeypatch) -> None:
    import ray

    def connect(*told: object, **more: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # as it takes over the signal

    for name, value in (
        ("is_initialized", lambda: False),
        ("shutdown", lambda: None),
        ("init", connect),
        ("cluster_resources", dict),
    ):
        monkeypatch.setattr(ray, name, value)
    before = signal.getsignal(signal.SIGTERM)
    with RayEngine(address="auto"):
        assert signal.getsignal(signal.SIGTERM) == before


def test_wrong_engines_are_refused_before_anything_starts() -> None:
    for wrong in ({"workers": 0}, {"threads": 0}):
        with pytest.raises(InputError, match=r"got 0"):
            RayEngine(**wrong)
    with pytest.raises(InputError, match="workers: got 0"):
        choose_engine("local", 0)
    with pytest.raises(InputError, match="with block"):
        RayEngine(1).map("nothing", write, [], Machine())
    with (
        pytest.raises(InputError, match="host:port or auto"),
        RayEngine(address="ray://x"),
    ):
        pass
    with pytest.raises(InputError, match="engine: got 'dask'"):
        choose_engine("dask")
    with pytest.raises(InputError, match="--ray-address"):
        choose_engine("local", ray_address="auto")
    assert address_warnings(None) == ()
    (warning,) = address_warnings("auto")
    assert "run code" in warning
    assert type(choose_engine()) is Engine
    assert isinstance(choose_engine("local", 2), ProcessPool)
    assert isinstance(choose_engine("ray", 2), RayEngine)


def test_without_ray_its_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match="pip install ray"), RayEngine(1):
        pass


def test_without_shared_memory_the_object_store_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_engine, "SHARED_MEMORY", "/nowhere/at/all")
    assert ray_engine.object_store_bytes() == ray_engine.SMALLEST_STORE
