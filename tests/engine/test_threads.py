"""Work in threads of this process: results in order, one thread that reports, an end for all."""

import threading
import time
from collections.abc import Callable

import pytest
import torch

from repalign.engine.machine import Machine
from repalign.engine.threads import run_in_threads
from repalign.exceptions import InputError

Work = Callable[[Machine], int]


@pytest.fixture(autouse=True)
def two_threads() -> object:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def numbered(number: int, meeting: threading.Barrier) -> Work:
    def work(machine: Machine) -> int:
        machine.on_stage("work", 1, 2)
        meeting.wait(timeout=10)  # ends only if another lane is here as well
        assert torch.get_num_threads() == 1
        return number

    return work


def test_results_are_in_order_and_the_caller_alone_reports() -> None:
    meeting = threading.Barrier(2)
    told: list[tuple[str, int, int]] = []
    speakers = set()

    def hear(*said: object) -> None:
        told.append(said)
        speakers.add(threading.current_thread())

    works = [numbered(number, meeting) for number in range(4)]
    works.append(lambda machine: time.sleep(0.3) or 4)
    works.append(lambda machine: time.sleep(0.3) or 5)
    found = run_in_threads(works, Machine(on_stage=hear), lanes=2, stage="work")
    assert found == [0, 1, 2, 3, 4, 5]
    assert speakers == {threading.current_thread()}
    assert ("work", 4, 10) in told
    assert torch.get_num_threads() == 2


def failing(message: str) -> Work:
    def work(machine: Machine) -> int:
        raise InputError(message)

    return work


def test_of_several_failures_the_first_in_order_is_told() -> None:
    works = [lambda machine: 1, failing("second"), failing("third")]
    with pytest.raises(InputError, match="second"):
        run_in_threads(works, Machine(), lanes=3, stage="work")
    assert torch.get_num_threads() == 2


def test_a_stop_reaches_the_lanes_at_their_next_report() -> None:
    reports = []

    def endless(machine: Machine) -> int:
        while True:
            machine.on_stage("work", 0, 1)
            reports.append(1)
            time.sleep(0.01)

    def interrupt(*said: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_in_threads([endless, endless], Machine(on_stage=interrupt), lanes=2, stage="work")
    ended = len(reports)
    time.sleep(0.05)
    assert len(reports) == ended > 0
