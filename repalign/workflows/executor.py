"""Who does independent units of work: this process, or a pool of others.

A unit is a plain value that can be sent to another process; its result can be sent back. What
it computes depends on the unit alone, never on its place among others or on who computes it.
"""

import contextlib
import os
import signal
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any, Generic, Protocol, Self, TypeVar, runtime_checkable

from repalign.arguments import checked
from repalign.exceptions import InputError, RepalignError
from repalign.workflows.environment import SAFE_PATH, environment
from repalign.workflows.machine import Machine, ignore_stage
from repalign.workflows.side_by_side import run_side_by_side
from repalign.workflows.signals import signals_wait

MOST_WORKERS, WORKERS_OF_A_CORE = 64, 4

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Unit(Protocol[T_co]):
    """One piece of work that needs no other at the same time."""

    @property
    def key(self) -> str:
        """Name that is equal where the work is: of content and settings, not of place."""
        ...

    @property
    def stage(self) -> str:
        """What it is called while people wait for it."""
        ...

    def run(self, machine: Machine) -> T_co:
        """Do it."""
        ...


@runtime_checkable
class Executor(Protocol):
    """Does units, in any order and anywhere, and returns their results in the order given."""

    def map(self, units: Sequence[Unit[T]], machine: Machine) -> list[T]:
        """Return the result of every unit.

        Raises:
            RepalignError: What a unit raised; of several, that of the first in order.
        """
        ...


@runtime_checkable
class Parallel(Protocol):
    """A unit that leaves threads idle, so that several are best done at once in one process."""

    def lanes(self, machine: Machine) -> int:
        """Return how many like it."""
        ...


class InProcess:
    """Does one unit after the other in this process, or those that say so side by side."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        """Nothing was started."""

    def map(self, units: Sequence[Unit[T]], machine: Machine) -> list[T]:
        """Return the result of every unit."""
        wanted = (unit.lanes(machine) if isinstance(unit, Parallel) else 1 for unit in units)
        lanes = min(len(units), *wanted) if len(units) > 1 else 1
        if lanes == 1:
            return [
                unit.run(_among(machine, unit.stage, number, len(units)))
                for number, unit in enumerate(units)
            ]
        works = [unit.run for unit in units]
        return run_side_by_side(works, machine, lanes=lanes, stage=units[0].stage)


def _among(machine: Machine, what: str, number: int, n_units: int) -> Machine:
    """Return the machine of one unit of several: it tells how much of all of them is done.

    What a unit tells by its own name is its part of that. What it tells of its stages would run to
    the end again and again, and the time left with it: it is named alone.
    """
    if n_units == 1:
        return machine

    def on_stage(stage: str, done: int, total: int) -> None:
        if stage == what:
            machine.on_stage(what, number * total + done, n_units * total)
        else:
            machine.on_stage(f"{what}, {stage}", number, n_units)

    return replace(machine, on_stage=on_stage)


@dataclass(frozen=True)
class Done(Generic[T]):
    """What came back: a result, or the kind and message of an expected failure."""

    result: T | None = None
    failure: tuple[type[RepalignError], str] | None = None


class ProcessPool:
    """Does units in several processes, each with one thread and the memory cap of the machine.

    Use it in a ``with`` block; the processes end with it, and also when this process ends in
    any other way.

    Args:
        workers: How many processes.

    Raises:
        InputError: There is not at least one, or so many that starting them would fill the machine.

    Example:
        >>> import numpy as np, repalign
        >>> x = np.random.default_rng(0).laplace(size=(50, 3))
        >>> with ProcessPool(1) as pool:
        ...     result = repalign.compare(x, x + 1, quick=True, maps="rigid", executor=pool)
        >>> ProcessPool(0)
        Traceback (most recent call last):
        repalign.exceptions.InputError: workers: got 0, expected at least 1
    """

    @checked
    def __init__(self, workers: int) -> None:
        if workers < 1:
            raise InputError(f"workers: got {workers}, expected at least 1")
        most = max(MOST_WORKERS, WORKERS_OF_A_CORE * (os.cpu_count() or 1))
        if workers > most:  # all of them are started with the first unit
            raise InputError(f"workers: got {workers}, expected at most {most} on this machine")
        self.workers = workers
        self._pool: ProcessPoolExecutor | None = None
        self._life: Connection | None = None

    def __enter__(self) -> Self:
        context = get_context("spawn")
        watched, self._life = context.Pipe(duplex=False)
        with environment(SAFE_PATH):  # the process that tidies up after them starts here
            self._pool = ProcessPoolExecutor(
                self.workers, mp_context=context, initializer=_start_worker, initargs=(watched,)
            )
        return self

    def __exit__(self, kind: type[BaseException] | None, *failure: object) -> None:
        assert self._pool is not None
        assert self._life is not None
        if kind is not None:
            self._life.close()  # ends the workers at once
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._life.close()
        self._pool = self._life = None

    def map(self, units: Sequence[Unit[T]], machine: Machine) -> list[T]:
        """Return the result of every unit.

        Raises:
            RepalignError: What a unit raised, or a worker died.
        """
        if self._pool is None:
            raise InputError("ProcessPool: not started; use it in a with block")
        quiet = replace(machine, on_stage=ignore_stage)
        with signals_wait(), environment(SAFE_PATH):  # the first starts the workers
            futures = [self._pool.submit(do_unit, unit, quiet) for unit in units]
        progress = Progress(units, machine)
        for future in futures:
            future.add_done_callback(progress.count)
        try:
            return [result_of(future.result()) for future in futures]
        except BrokenProcessPool as failure:
            raise RepalignError(
                "a worker process ended before its work was done, killed or out of memory; use "
                "fewer --workers or a smaller --memory"
            ) from failure


class Progress:
    """Counts the units that are done; futures call it from a thread of their own."""

    def __init__(self, units: Sequence[Unit[Any]], machine: Machine) -> None:
        self._machine = machine
        self._stage = units[0].stage if units else ""
        self._total = len(units)
        self._done = 0
        self._lock = threading.Lock()
        if units:
            machine.on_stage(self._stage, 0, self._total)

    def count(self, future: "Future[Any]") -> None:
        """Hear that one more is done, unless it was called off."""
        if not future.cancelled():
            self.add(1)

    def add(self, number: int) -> None:
        """Hear that so many more are done."""
        with self._lock:
            self._done += number
            self._machine.on_stage(self._stage, self._done, self._total)


def result_of(done: Done[T]) -> T:
    """Return the result that came back.

    Raises:
        RepalignError: What the unit raised.
    """
    if done.failure is not None:
        raise error_of(done.failure)
    return done.result  # type: ignore[return-value]


def error_of(failure: tuple[type[RepalignError], str]) -> RepalignError:
    """Return the failure that came back as its kind and message."""
    kind, message = failure
    # Not by calling the class: some take other arguments than their message.
    error = kind.__new__(kind, message)
    Exception.__init__(error, message)
    return error


def do_unit(unit: Unit[T], machine: Machine) -> Done[T]:
    """Do a unit in a worker; an expected failure is sent back as its message."""
    try:
        return Done(unit.run(machine))
    except RepalignError as failure:
        return Done(failure=(type(failure), str(failure)))


def _start_worker(watched: Connection) -> None:
    """Make this process a worker: one thread, no answer to Ctrl-C, and no life of its own."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    hold_threads(1)
    threading.Thread(target=_end_with, args=(watched,), daemon=True).start()


def hold_threads(number: int) -> None:
    """Hold numpy and torch at so many threads for as long as this process lives."""
    from repalign.core.thread_choice import threads_held

    if _HELD.get("threads") == number:
        return
    os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = str(number)  # torch comes later
    _FOR_LIFE.enter_context(threads_held(number))
    _HELD["threads"] = number


_FOR_LIFE = contextlib.ExitStack()
_HELD: dict[str, int] = {}


def _end_with(watched: Connection) -> None:
    """Wait until the other end is closed, by the process that started this one or its death."""
    with contextlib.suppress(EOFError, OSError):
        watched.recv()
    os._exit(1)
