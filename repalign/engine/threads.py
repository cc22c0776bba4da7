"""Run calls at the same time in threads of this process, where that uses its cores better."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import TypeVar

from repalign.core.device import lane_threads
from repalign.engine.machine import Machine

T = TypeVar("T")
# Seconds between two looks at how far the lanes are.
_LOOK_EVERY = 0.1


class _CalledOff(Exception):
    """Ends a lane from inside, at its next report, since others have failed or are stopped."""


class _Reports:
    """How far every work is; written by the lanes, read by the thread that waits for them."""

    def __init__(self, n_works: int) -> None:
        self._done = [(0, 1)] * n_works
        self._is_over = threading.Event()

    def call_off(self) -> None:
        """End all lanes at their next report."""
        self._is_over.set()

    def listener(self, number: int) -> Callable[[str, int, int], None]:
        """Return the callback of one work."""

        def hear(stage: str, done: int, total: int) -> None:
            if self._is_over.is_set():
                raise _CalledOff
            self._done[number] = done, total

        return hear

    def tell(self, stage: str, machine: Machine) -> None:
        """Tell the machine how far all of them are."""
        done, total = (sum(numbers) for numbers in zip(*self._done, strict=True))
        machine.on_stage(stage, done, total)


def run_in_threads(
    works: Sequence[Callable[[Machine], T]], machine: Machine, *, lanes: int, stage: str
) -> list[T]:
    """Return the results of all works, so many of them at a time, each with its share of threads.

    The machine's callback is called by this thread alone.

    Raises:
        Exception: What a work raised; of several, that of the first in order.
    """
    reports = _Reports(len(works))
    with (
        lane_threads(lanes) as start_lane,
        ThreadPoolExecutor(lanes, initializer=start_lane) as pool,
    ):
        try:
            futures = [
                pool.submit(work, replace(machine, on_stage=reports.listener(number)))
                for number, work in enumerate(works)
            ]
            while not _are_done(futures):
                reports.tell(stage, machine)
            return [future.result() for future in futures]
        except BaseException:
            reports.call_off()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _are_done(futures: "Sequence[Future[T]]") -> bool:
    return not wait(futures, timeout=_LOOK_EVERY).not_done
