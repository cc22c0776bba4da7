"""Run calls at the same time in threads of this process, where that uses its cores better."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import TypeVar

from repalign.core.device import lane_threads
from repalign.engine.machine import Machine

T = TypeVar("T")
# Seconds between two looks at how far the lanes are.
_LOOK_EVERY = 0.1


def run_in_threads(
    works: Sequence[Callable[[Machine], T]], machine: Machine, *, lanes: int, stage: str
) -> list[T]:
    """Return the results of all works, so many of them at a time, each with its share of threads.

    The machine's callback is called by this thread alone.

    Raises:
        Exception: What a work raised; of several, that of the first in order.
    """
    progress = [(0, 1)] * len(works)  # written by the lanes, read by this thread
    is_over = threading.Event()

    def listener(number: int) -> Callable[[str, int, int], None]:
        def on_stage(inner: str, done: int, total: int) -> None:
            if is_over.is_set():
                raise CancelledError  # ends the lane: others have failed or are stopped
            progress[number] = done, total

        return on_stage

    with (
        lane_threads(lanes) as start_lane,
        ThreadPoolExecutor(lanes, initializer=start_lane) as pool,
    ):
        try:
            futures = [
                pool.submit(work, replace(machine, on_stage=listener(number)))
                for number, work in enumerate(works)
            ]
            while wait(futures, timeout=_LOOK_EVERY).not_done:
                done, total = (sum(numbers) for numbers in zip(*progress, strict=True))
                machine.on_stage(stage, done, total)
            return [future.result() for future in futures]
        except BaseException:
            is_over.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
