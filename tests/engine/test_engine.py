"""Calls in this process and in others: results in order, failures, and an end for all."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import process
from pathlib import Path

import pytest

from repalign.engine.cache import Cache
from repalign.engine.engine import Engine, ProcessPool
from repalign.engine.machine import Machine
from repalign.exceptions import InputError, MissingExtraError, RepalignError

ROOT = Path(__file__).parents[2]


def square(machine: Machine, number: int) -> tuple[int, int]:
    """Return the threads of the process, too."""
    import torch

    return number**2, torch.get_num_threads()


def test_results_come_in_order_from_workers_of_one_thread() -> None:
    progress: list[tuple[str, int, int]] = []
    with ProcessPool(2) as pool:
        machine = Machine(on_stage=lambda *call: progress.append(call))
        results = pool.map("squares", square, range(5), machine)
    assert results == [(number**2, 1) for number in range(5)]
    here = Engine().map("squares", square, range(5), Machine())
    assert [number for number, _ in here] == [0, 1, 4, 9, 16]
    assert progress == [("squares", done, 5) for done in range(6)]


def add(machine: Machine, number: int, first: list[int], second: int) -> int:
    first.append(number)
    return number + second


def test_equal_keys_are_computed_once_and_kept(tmp_path: Path) -> None:
    calls: list[int] = []

    def run(numbers: list[int], **options: object) -> list[int]:
        return engine.map(
            "sums",
            add,
            numbers,
            Machine(),
            key=lambda number: f"sum-{number}",
            shared=lambda number: (calls, 10),
            **options,
        )

    engine = Engine(Cache(tmp_path, 2**20))
    assert run([1, 2, 1]) == [11, 12, 11]
    assert calls == [1, 2]
    assert run([3, 2]) == [13, 12]
    assert calls == [1, 2, 3]
    assert (engine.n_computed, engine.n_cached) == (3, 1)
    assert run([4], only_slow=True) == run([4]) == [14]
    assert calls == [1, 2, 3, 4, 4]


def fail(machine: Machine, how: str) -> int:
    if how == "expected":
        raise MissingExtraError("lightgbm", extra="deconfound", purpose="this")
    if how == "dies":
        os._exit(3)
    return 7


def run_failing(engine: Engine, *how: str) -> list[int]:
    return engine.map("failing", fail, how, Machine())


def test_failures_travel_back_as_one_line() -> None:
    with ProcessPool(1) as pool:
        with pytest.raises(MissingExtraError, match="this needs the package lightgbm"):
            run_failing(pool, "not", "expected")
        assert run_failing(pool, "not") == [7]
        with pytest.raises(RepalignError, match="worker"):
            run_failing(pool, "dies")
    with pytest.raises(InputError, match="workers: got 0, expected at least 1"):
        ProcessPool(0)
    with pytest.raises(InputError, match=r"workers: got 10{23}, expected at most"):
        ProcessPool(10**23)
    with pytest.raises(InputError, match="use it in a with block"):
        run_failing(ProcessPool(1), "not")


def test_ctrl_c_while_workers_start_is_heard_when_they_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Broken off before its thread runs, a pool could not be ended: RuntimeError, exit code 1."""
    started = process._ExecutorManagerThread.start

    def interrupted_start(thread: process._ExecutorManagerThread) -> None:
        signal.raise_signal(signal.SIGINT)
        started(thread)

    monkeypatch.setattr(process._ExecutorManagerThread, "start", interrupted_start)
    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), ProcessPool(1) as pool:
            run_failing(pool, "not")
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def write_beats(machine: Machine, file: Path) -> None:
    """Never end, and show that this process lives."""
    beats = 0
    while True:
        beats += 1
        file.write_text(str(beats))
        time.sleep(0.05)


def beat(file: str) -> None:
    with ProcessPool(1) as pool:
        pool.map("beating", write_beats, [Path(file)], Machine())


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_workers_end_with_the_process_that_started_them(tmp_path: Path, how: int) -> None:
    file = tmp_path / "beats"
    # whoever runs the tests in the background may have told them to ignore Ctrl-C
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    code += f"from tests.engine.test_engine import beat; beat({str(file)!r})"
    parent = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stderr=subprocess.PIPE)
    while not file.exists():
        assert parent.poll() is None, parent.stderr
        time.sleep(0.05)
    parent.send_signal(how)
    _, said = parent.communicate(timeout=60)
    assert b"Process SpawnProcess" not in said  # the workers say nothing
    before, after = "", file.read_text()
    while before != after:
        time.sleep(0.5)
        before, after = after, file.read_text()
