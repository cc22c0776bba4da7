"""Units of work in this process and in others: results in order, failures, and an end for all."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import process
from pathlib import Path

import pytest

from repalign.exceptions import InputError, MissingExtraError, RepalignError
from repalign.workflows.executor import InProcess, ProcessPool
from repalign.workflows.machine import Machine

ROOT = Path(__file__).parents[2]


class Square:
    """A unit that tells how many threads it has, too."""

    stage = "squares"

    def __init__(self, number: int) -> None:
        self.number = number
        self.key = f"square-{number}"

    def run(self, machine: Machine) -> tuple[int, int]:
        import torch

        return self.number**2, torch.get_num_threads()


def test_results_come_in_order_from_workers_of_one_thread() -> None:
    units = [Square(number) for number in range(5)]
    told: list[tuple[str, int, int]] = []
    with ProcessPool(2) as pool:
        found = pool.map(units, Machine(on_stage=lambda *said: told.append(said)))
    assert found == [(number**2, 1) for number in range(5)]
    assert [square for square, _ in InProcess().map(units, Machine())] == [0, 1, 4, 9, 16]
    assert told == [("squares", done, 5) for done in range(6)]


class Failing:
    """A unit that fails as told."""

    key = "failing"
    stage = "failing"

    def __init__(self, how: str) -> None:
        self.how = how

    def run(self, machine: Machine) -> int:
        if self.how == "expected":
            raise MissingExtraError("lightgbm", extra="deconfound", purpose="this")
        if self.how == "dies":
            os._exit(3)
        return 7


def test_failures_travel_back_as_one_line() -> None:
    with ProcessPool(1) as pool:
        with pytest.raises(MissingExtraError, match="this needs the package lightgbm"):
            pool.map([Failing("not"), Failing("expected")], Machine())
        assert pool.map([Failing("not")], Machine()) == [7]
        with pytest.raises(RepalignError, match="a worker process ended before its work was done"):
            pool.map([Failing("dies")], Machine())
    with pytest.raises(InputError, match="workers: got 0, expected at least 1"):
        ProcessPool(0)
    with pytest.raises(InputError, match=r"workers: got 10{23}, expected at most"):
        ProcessPool(10**23)
    with pytest.raises(InputError, match="use it in a with block"):
        ProcessPool(1).map([Failing("not")], Machine())


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
            pool.map([Failing("not")], Machine())
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


class Beating:
    """A unit that never ends, and shows that it lives."""

    key = "beating"
    stage = "beating"

    def __init__(self, file: Path) -> None:
        self.file = file

    def run(self, machine: Machine) -> None:
        beats = 0
        while True:
            beats += 1
            self.file.write_text(str(beats))
            time.sleep(0.05)


def beat(file: str) -> None:
    with ProcessPool(1) as pool:
        pool.map([Beating(Path(file))], Machine())


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_workers_end_with_the_process_that_started_them(tmp_path: Path, how: int) -> None:
    file = tmp_path / "beats"
    # whoever runs the tests in the background may have told them to ignore Ctrl-C
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    code += f"from tests.workflows.test_executor import beat; beat({str(file)!r})"
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
