"""One `map` for all independent calls: in this process or in a pool of processes.

A call is a function of a module and arguments that can be pickled. Its result depends on these
alone, never on its place among other calls or on who computes it.
"""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any, Self

from repalign.arguments import checked
from repalign.engine.cache import Cache
from repalign.engine.environment import SAFE_PATH, environment
from repalign.engine.machine import Machine, ignore_stage
from repalign.engine.signals import signals_wait
from repalign.engine.threads import run_in_threads
from repalign.exceptions import InputError, RepalignError

MOST_WORKERS, WORKERS_OF_A_CORE = 64, 4
# Results that took less are computed again sooner than read, where a stage keeps slow ones only.
SLOW_SECONDS = 1.0

Function = Callable[..., Any]
Failure = tuple[type[RepalignError], str]
# The result of a call, and the kind and message of an expected failure; None for none.
Outcome = tuple[Any, Failure | None]


@dataclass(frozen=True, eq=False)
class Call:
    """A function with its arguments, and the name under which its result is kept.

    Attributes:
        function: Takes the machine, then the arguments.
        arguments: The item, then what it shares with other calls.
        key: Name of the result in the cache; empty for none.
        cache: Where results are kept; None for nowhere.
        only_slow: Keep the result only where it took long.
    """

    function: Function
    arguments: tuple[Any, ...]
    key: str = ""
    cache: Cache | None = None
    only_slow: bool = False

    def run(self, machine: Machine) -> Any:
        """Return the result, which whoever computes it keeps at once."""
        if self.cache is None or not self.key:
            return self.function(machine, *self.arguments)
        # another run, or one that was lost on its way, may have computed it meanwhile
        result = self.cache.find(self.key, machine)
        if result is None:
            started = time.monotonic()
            result = self.function(machine, *self.arguments)
            if not self.only_slow or time.monotonic() - started > SLOW_SECONDS:
                self.cache.keep(self.key, machine, result)
        return result


class Engine:
    """Runs one call after the other in this process; subclasses run several at the same time.

    Args:
        cache: Where results are kept and looked for; None for nowhere.

    Attributes:
        workers: How many calls run at the same time.
        n_threads: Threads of each of them; None for calls in this process, with all of its threads.
        n_cached: Results that the cache held.
        n_computed: Results that were computed.
    """

    workers: int = 1
    n_threads: int | None = None

    def __init__(self, cache: Cache | None = None) -> None:
        self.cache = cache
        self.n_cached = self.n_computed = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        """End what was started; the first argument is the class of an exception, or None."""

    def map(
        self,
        stage: str,
        function: Function,
        items: Iterable[Any],
        machine: Machine,
        *,
        key: Callable[[Any], str] | None = None,
        shared: Callable[[Any], tuple[Any, ...]] = lambda item: (),
        lanes: Callable[[Any, Machine], int] | None = None,
        only_slow: bool = False,
    ) -> list[Any]:
        """Return ``function(machine, item, *shared(item))`` of every item, in their order.

        Args:
            stage: What progress is called.
            function: A function of a module, so that other processes can be sent its name.
            items: What is different between the calls.
            machine: Device, memory and progress.
            key: Names a result by everything that it depends on: equal names are computed once,
                and kept in the cache.
            shared: What a call takes besides its item; Ray is sent the same object once.
            lanes: How many calls like that of an item are best run by threads of one process.
            only_slow: Keep only results that took long.

        Raises:
            RepalignError: What a call raised; of several, that of the first in order.
        """
        results: dict[str, Any] = {}
        calls: dict[str, Call] = {}
        names = []
        for number, item in enumerate(items):
            name = str(number) if key is None else key(item)
            names.append(name)
            if name in results or name in calls:
                continue
            result = self.find(name, machine) if key is not None else None
            if result is not None:
                results[name] = result
            else:
                cache = None if key is None else self.cache
                calls[name] = Call(function, (item, *shared(item)), name, cache, only_slow)
        self.n_computed += 0 if only_slow else len(calls)
        n_lanes = 1
        if lanes is not None and len(calls) > 1 and self.workers == 1:
            n_lanes = min(
                len(calls), *(lanes(call.arguments[0], machine) for call in calls.values())
            )
        if self.n_threads is not None:
            results |= zip(calls, self.run(stage, list(calls.values()), machine), strict=True)
        elif n_lanes > 1:
            works = [call.run for call in calls.values()]
            outcomes = run_in_threads(works, machine, lanes=n_lanes, stage=stage)
            results |= zip(calls, outcomes, strict=True)
        else:
            for number, (name, call) in enumerate(calls.items()):
                if len(calls) > 1:
                    machine.on_stage(stage, number, len(calls))
                part = _machine_of_call(machine, stage, number, len(calls))
                if call.cache is None:
                    results[name] = call.function(part, *call.arguments)
                else:
                    results[name] = call.run(part)
        return [results[name] for name in names]

    def threads(self) -> contextlib.AbstractContextManager[None]:
        """Hold this process at as many threads as a worker has, so that numbers are the same."""
        if self.n_threads is None:
            return contextlib.nullcontext()
        from repalign.core.device import threads_held

        return threads_held(self.n_threads)

    def find(self, key: str, machine: Machine) -> Any | None:
        """Return a result that was kept; None for none."""
        result = None if self.cache is None else self.cache.find(key, machine)
        self.n_cached += result is not None
        return result

    def run(self, stage: str, calls: Sequence[Call], machine: Machine) -> list[Any]:
        """Return the results of calls that run at the same time, in their order."""
        outcomes: dict[int, Outcome] = {}
        if calls:
            machine.on_stage(stage, 0, len(calls))
        for number, outcome in self.completed(calls, machine):
            outcomes[number] = outcome
            machine.on_stage(stage, len(outcomes), len(calls))
        results = []
        for _, (result, failure) in sorted(outcomes.items()):  # after a failure some are missing
            if failure is not None:
                raise to_error(failure)
            results.append(result)
        return results

    def completed(
        self, calls: Sequence[Call], machine: Machine, *, stop: bool = True
    ) -> Iterator[tuple[int, Outcome]]:
        """Yield the outcomes of calls by their numbers, as they complete.

        Args:
            calls: What to run.
            machine: Device and memory.
            stop: Start no more calls after a failure.
        """
        raise NotImplementedError


def _machine_of_call(machine: Machine, stage: str, number: int, n_calls: int) -> Machine:
    """Return the machine of one call of several, whose progress is a part of that of all."""
    if n_calls == 1:
        return machine

    def on_stage(inner: str, done: int, total: int) -> None:
        if inner == stage:
            machine.on_stage(stage, number * total + done, n_calls * total)
        else:
            machine.on_stage(f"{stage}, {inner}", number, n_calls)

    return replace(machine, on_stage=on_stage)


class ThreadPool(Engine):
    """Runs calls in threads of this process: of functions that let others run meanwhile.

    Args:
        workers: How many threads.
        cache: Where results are kept and looked for; None for nowhere.
    """

    n_threads = 1

    def __init__(self, workers: int, cache: Cache | None = None) -> None:
        super().__init__(cache)
        self.workers = workers

    def completed(
        self, calls: Sequence[Call], machine: Machine, *, stop: bool = True
    ) -> Iterator[tuple[int, Outcome]]:
        """Yield the outcomes of calls by their numbers, as they complete."""
        pool = ThreadPoolExecutor(self.workers)
        try:
            futures = {
                pool.submit(outcome_of, call, replace(machine, on_stage=ignore_stage)): number
                for number, call in enumerate(calls)
            }
            for future in as_completed(futures):
                result, failure = future.result()
                yield futures[future], (result, failure)
                if stop and failure is not None:
                    return
        finally:
            pool.shutdown(cancel_futures=True)


class ProcessPool(Engine):
    """Runs calls in several processes, each with one thread and the memory cap of the machine.

    Use it in a ``with`` block; the processes end with it, and also when this process ends in
    any other way.

    Args:
        workers: How many processes.
        cache: Where results are kept and looked for; None for nowhere.

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

    n_threads = 1

    @checked
    def __init__(self, workers: int, cache: Cache | None = None) -> None:
        super().__init__(cache)
        if workers < 1:
            raise InputError(f"workers: got {workers}, expected at least 1")
        most = max(MOST_WORKERS, WORKERS_OF_A_CORE * (os.cpu_count() or 1))
        if workers > most:  # all of them are started with the first call
            raise InputError(f"workers: got {workers}, expected at most {most} on this machine")
        self.workers = workers
        self._pool: ProcessPoolExecutor | None = None
        self._pipe: Connection | None = None

    def __enter__(self) -> Self:
        context = get_context("spawn")
        watched, self._pipe = context.Pipe(duplex=False)
        with environment(SAFE_PATH):  # the process that tidies up after them starts here
            self._pool = ProcessPoolExecutor(
                self.workers, mp_context=context, initializer=_start_worker, initargs=(watched,)
            )
        return self

    def __exit__(self, *failure: object) -> None:
        assert self._pool is not None
        assert self._pipe is not None
        if failure[0] is not None:
            self._pipe.close()  # ends the workers at once
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._pipe.close()
        self._pool = self._pipe = None

    def completed(
        self, calls: Sequence[Call], machine: Machine, *, stop: bool = True
    ) -> Iterator[tuple[int, Outcome]]:
        """Yield the outcomes of calls by their numbers, as they complete.

        Raises:
            RepalignError: A worker died.
        """
        if self._pool is None:
            raise InputError("ProcessPool: not started; use it in a with block")
        quiet = replace(machine, on_stage=ignore_stage)
        with signals_wait(), environment(SAFE_PATH):  # the first starts the workers
            futures = {
                self._pool.submit(outcome_of, call, quiet): number
                for number, call in enumerate(calls)
            }
        try:
            for future in as_completed(futures):
                if not future.cancelled():
                    result, failure = future.result()
                    yield futures[future], (result, failure)
                    if stop and failure is not None:
                        for other in futures:  # those before it run already
                            other.cancel()
        except BrokenProcessPool as failure:
            raise RepalignError(
                "a worker process ended before its work was done, killed or out of memory; use "
                "fewer --workers or a smaller --memory"
            ) from failure


def outcome_of(call: Call, machine: Machine) -> Outcome:
    """Run a call in a worker; an expected failure is sent back as its message."""
    try:
        return call.run(machine), None
    except RepalignError as failure:
        return None, (type(failure), str(failure))


def to_error(failure: Failure) -> RepalignError:
    """Return the failure that came back as its kind and message."""
    kind, message = failure
    # Not by calling the class: some take other arguments than their message.
    error = kind.__new__(kind, message)
    Exception.__init__(error, message)
    return error


def _start_worker(watched: Connection) -> None:
    """Make this process a worker: one thread, deaf to Ctrl-C, ending with its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    hold_threads(1)
    threading.Thread(target=_end_with, args=(watched,), daemon=True).start()


def hold_threads(number: int) -> None:
    """Hold numpy and torch at so many threads for as long as this process lives."""
    from repalign.core.device import threads_held

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
