"""Units of work as tasks of Ray: on one machine or on many, whose processes and nodes may die.

A task is a run of consecutive units, which share rows: a tile of the matrix of pairs. What it
computes is kept unit by unit where the caller keeps results, so that a task that is tried again
does only what was lost.
"""

import os
import socket
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

from repalign.exceptions import InputError, RepalignError
from repalign.workflows.engines.cluster import cluster_has, connected
from repalign.workflows.engines.parcels import Packer, unpack
from repalign.workflows.executor import Done, Progress, Unit, do_unit, hold_threads, result_of
from repalign.workflows.machine import Machine, ignore_stage

T = TypeVar("T")

RETRIES = 3
# Tasks that a processor gets of one round: more balance better, fewer read rows less often.
TASKS_EACH = 16
LARGEST_TASK = 64
# Tasks that wait in the cluster beside those that run, so that no processor waits for the next.
AHEAD = 2
PATIENCE = 20.0


@dataclass(frozen=True)
class Workplace:
    """What a task is told of the place where its command was typed."""

    folder: str
    threads: int

    def enter(self) -> None:
        """Stand where the command was typed, with so many threads.

        Raises:
            InputError: There is no such folder on this node.
        """
        if str(Path.cwd()) != self.folder:
            try:
                os.chdir(self.folder)
            except OSError as failure:
                raise InputError(
                    f"node {socket.gethostname()} has no folder {self.folder}, where the command "
                    "was started; mount shared storage at the same path on every node"
                ) from failure
        hold_threads(self.threads)


class RayTasks:
    """Does units as tasks of a Ray cluster; use it in a ``with`` block.

    Args:
        workers: Units at the same time; None for as many as the cluster has processors.
        address: ``host:port`` of a running cluster, or ``auto``; None starts one on this machine.
        threads: Of each task, which asks for as many processors.

    Attributes:
        shared_bytes: Bytes of arrays that were put into the object store for all units.
        sent_bytes: These, and what went along with every task.

    Raises:
        InputError: Not at least one worker or thread.
    """

    def __init__(
        self, workers: int | None = None, *, address: str | None = None, threads: int = 1
    ) -> None:
        if workers is not None and workers < 1:
            raise InputError(f"workers: got {workers}, expected at least 1")
        if threads < 1:
            raise InputError(f"threads: got {threads}, expected at least 1")
        self.workers, self.address, self.threads = workers, address, threads
        self.shared_bytes = self.sent_bytes = 0
        self._stack: ExitStack | None = None

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            processors = None if self.workers is None else self.workers * self.threads
            stack.enter_context(connected(self.address, processors))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *failure: object) -> None:
        assert self._stack is not None
        self._stack.close()
        self._stack = None

    def map(self, units: Sequence[Unit[T]], machine: Machine) -> list[T]:
        """Return the result of every unit.

        Raises:
            RepalignError: What a unit raised, or its process died again and again.
        """
        if self._stack is None:
            raise InputError("RayTasks: not started; use it in a with block")
        if not units:
            return []
        quiet = replace(machine, on_stage=ignore_stage)
        place = Workplace(str(Path.cwd()), self.threads)
        packer, progress = Packer(), Progress(units, machine)
        done = _Results[T]([None] * len(units))
        task, slots = self._task(machine), self._slots(machine)
        size = min(max(len(units) // (slots * TASKS_EACH), 1), LARGEST_TASK)
        waiting = list(range(0, len(units), size))[::-1]
        running: dict[Any, int] = {}
        while waiting or running:
            while waiting and len(running) < slots * AHEAD:
                start = waiting.pop()
                parcel = packer.pack(units[start : start + size])
                self.sent_bytes += len(parcel.content)
                running[task.remote(parcel.content, place, quiet, *parcel.arrays)] = start
            for start, found in self._finished(running):
                done.put(start, found)
                progress.add(len(found))
            if done.has_failed:
                waiting.clear()  # those before the failure run already
        self.shared_bytes += packer.shared_bytes
        self.sent_bytes += packer.shared_bytes
        return done.in_order()

    def _task(self, machine: Machine) -> Any:
        import ray

        return ray.remote(_do_parcel).options(
            num_cpus=self.threads,
            num_gpus=0 if machine.device == "cpu" else 1,
            max_retries=RETRIES,
            retry_exceptions=False,
        )

    def _slots(self, machine: Machine) -> int:
        """Return how many tasks can run at the same time."""
        if self.workers is not None:
            return self.workers
        found = cluster_has("CPU") // self.threads
        return max(int(found if machine.device == "cpu" else min(found, cluster_has("GPU"))), 1)

    def _finished(self, running: dict[Any, int]) -> list[tuple[int, list[Done[Any]]]]:
        """Wait for tasks, take what they did from those that run, and return it by first unit."""
        import pickle

        import ray

        ready, _ = ray.wait(list(running), num_returns=1, timeout=PATIENCE)
        if not ready and cluster_has("CPU") < self.threads:
            raise RepalignError(
                f"the Ray cluster has {cluster_has('CPU'):g} processors left, and a task needs "
                f"{self.threads}; add nodes and run the command again, which goes on"
            )
        found = []
        for reference in ready:
            start = running.pop(reference)
            # Unpickled here, so that nothing holds the cluster's shared memory.
            found.append((start, pickle.loads(_received(reference))))
            del reference
        return found


@dataclass
class _Results(Generic[T]):
    """What has come back, by place."""

    found: list[Done[T] | None]
    has_failed: bool = False

    def put(self, start: int, results: Sequence[Done[T]]) -> None:
        """Take the results of consecutive units."""
        self.found[start : start + len(results)] = results
        self.has_failed |= any(each.failure is not None for each in results)

    def in_order(self) -> list[T]:
        """Return all results; of failures the first in order is raised."""
        return [result_of(each) for each in self.found if each is not None]


def _received(reference: Any) -> bytes:
    """Return the bytes of a finished task.

    Raises:
        RepalignError: It was tried again and again, and its process died.
    """
    import ray
    from ray.exceptions import OutOfMemoryError, RayError, RayTaskError

    try:
        return ray.get(reference)
    except OutOfMemoryError as failure:
        raise RepalignError(
            "a node of the Ray cluster ran out of memory; use fewer --workers or a smaller --memory"
        ) from failure
    except RayTaskError:
        raise  # a defect of ours, with its traceback
    except RayError as failure:
        raise RepalignError(
            f"a task of the Ray cluster was lost {RETRIES + 1} times ({type(failure).__name__}); "
            "look at its nodes and run the command again, which goes on"
        ) from failure


def _do_parcel(content: bytes, place: Workplace, machine: Machine, *arrays: Any) -> bytes:
    """Do the units of a parcel in a process of Ray."""
    import pickle

    try:
        place.enter()
    except InputError as failure:
        return pickle.dumps([Done(failure=(InputError, str(failure)))])
    found = [do_unit(unit, machine) for unit in unpack(content, arrays)]
    return pickle.dumps(found, protocol=5)
