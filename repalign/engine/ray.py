"""Calls as tasks of Ray: on a cluster that runs, or one of this machine for as long as needed.

A cluster that is started here listens on the loopback address only, shows no dashboard, reports
nothing to others, takes calls only with Ray's token, and leaves no files. Processes and nodes may
die: a task is tried again, and what it had computed is found in the cache.
"""

import functools
import logging
import os
import pickle
import secrets
import shutil
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, chdir, contextmanager, redirect_stdout, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from repalign.engine.cache import Cache
from repalign.engine.engine import (
    Call,
    Engine,
    Outcome,
    hold_threads,
    outcome_of,
)
from repalign.engine.environment import environment
from repalign.engine.machine import Machine, ignore_stage
from repalign.exceptions import InputError, MissingExtraError, RepalignError, first_line
from repalign.files import private_folder

RETRIES = 3
# Tasks that wait in the cluster for each that runs, so that no processor waits for the next.
AHEAD = 2
PATIENCE = 20.0
SECONDS_TO_ANSWER = 10
# Arrays that tasks share, and results on their way; what does not fit goes to the disk.
OBJECT_STORE_BYTES = 2**30
SMALLEST_STORE = 80 * 2**20
SHARED_MEMORY = "/dev/shm"
SCRATCH = "repalign-ray-"
# Ray opens the folder that it is given to everybody: it is one inside ours, which is closed.
RAY_FOLDER = "r"
PRIVATE = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # On Linux too this is what makes every service of a local cluster bind to loopback.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    # No traces of ours and of C++ where SIGTERM ends the command.
    "RAY_DISABLE_FAILURE_SIGNAL_HANDLER": "1",
}


class RayEngine(Engine):
    """Runs calls as tasks of a Ray cluster; use it in a ``with`` block.

    Args:
        workers: Calls at the same time; None for as many as the cluster has room for.
        cache: Where results are kept and looked for; None for nowhere.
        address: ``host:port`` of a running cluster, or ``auto``; None starts one on this machine.
        threads: Of each task, which asks for as many processors.
        gpus: Of each task; None for one where the machine computes on one.

    Raises:
        InputError: Not at least one worker or thread.
    """

    n_threads: int

    def __init__(
        self,
        workers: int | None = None,
        cache: Cache | None = None,
        *,
        address: str | None = None,
        threads: int = 1,
        gpus: int | None = None,
    ) -> None:
        super().__init__(cache)
        if workers is not None and workers < 1:
            raise InputError(f"workers: got {workers}, expected at least 1")
        if threads < 1:
            raise InputError(f"threads: got {threads}, expected at least 1")
        self.address, self.n_threads, self.gpus = address, threads, gpus
        self._wanted = workers
        self._stack: ExitStack | None = None

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            processors = None if self._wanted is None else self._wanted * self.n_threads
            stack.enter_context(connected(self.address, processors))
            self._stack = stack.pop_all()
        if self.gpus is None and cluster_has("GPU") == 0:
            self.gpus = 0
        self.workers = self._wanted or self._room()
        return self

    def __exit__(self, *failure: object) -> None:
        assert self._stack is not None
        self._stack.close()
        self._stack = None

    def _room(self) -> int:
        """Return how many tasks the cluster can run at the same time."""
        room = cluster_has("CPU") // self.n_threads
        if self.gpus:
            room = min(room, cluster_has("GPU") // self.gpus)
        return max(int(room), 1)

    def completed(
        self, calls: Sequence[Call], machine: Machine, *, stop: bool = True
    ) -> Iterator[tuple[int, Outcome]]:
        """Yield the outcomes of calls by their numbers, as they complete.

        Raises:
            RepalignError: A process died again and again, or there are no processors left.
        """
        if self._stack is None:
            raise InputError("RayEngine: not started; use it in a with block")
        import ray

        gpus = self.gpus if self.gpus is not None else int(machine.device != "cpu")
        task = ray.remote(
            num_cpus=self.n_threads,
            num_gpus=gpus,
            max_retries=RETRIES,
            retry_exceptions=False,
            max_calls=0,  # processes with a GPU serve more than one task too
        )(_run_call)
        place = (str(Path.cwd()), self.n_threads)
        quiet = replace(machine, on_stage=ignore_stage)
        self.workers = self._wanted or self._room()  # nodes may have joined
        references: dict[int, Any] = {}  # by identity, of objects that the calls hold
        waiting, running = list(enumerate(calls))[::-1], dict[Any, int]()
        while waiting or running:
            while waiting and len(running) < self.workers * AHEAD:
                number, call = waiting.pop()
                item, *shared = call.arguments
                for value in shared:
                    if id(value) not in references:
                        references[id(value)] = ray.put(value)
                bare = replace(call, arguments=(item,))
                objects = [references[id(value)] for value in shared]
                running[task.remote(bare, place, quiet, *objects)] = number
            ready, _ = ray.wait(list(running), num_returns=1, timeout=PATIENCE)
            if not ready and cluster_has("CPU") < self.n_threads:
                raise RepalignError(
                    f"the Ray cluster has {cluster_has('CPU'):g} processors left, and a task needs "
                    f"{self.n_threads}; add nodes and run the command again, which goes on"
                )
            for reference in ready:
                result, failure = _received(reference)
                yield running.pop(reference), (result, failure)
                if stop and failure is not None:
                    waiting.clear()  # those before the failure run already


def _run_call(call: Call, place: tuple[str, int], machine: Machine, *shared: Any) -> bytes:
    """Run a call in a process of Ray, in the folder of the command and with its threads."""
    folder, threads = place
    if str(Path.cwd()) != folder:
        try:
            os.chdir(folder)
        except OSError:
            text = (
                f"node {socket.gethostname()} has no folder {folder}, where the command was "
                "started; mount shared storage at the same path on every node"
            )
            return pickle.dumps((None, (InputError, text)))
    hold_threads(threads)
    outcome = outcome_of(replace(call, arguments=(*call.arguments, *shared)), machine)
    # As bytes, so that no result holds the shared memory of the cluster.
    return pickle.dumps(outcome, protocol=5)


def _received(reference: Any) -> Outcome:
    """Return the outcome of a finished task.

    Raises:
        RepalignError: It was tried again and again, and its process died.
    """
    import ray
    from ray.exceptions import OutOfMemoryError, RayError, RayTaskError

    try:
        outcome: Outcome = pickle.loads(ray.get(reference))
        return outcome
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


def cluster_has(resource: str) -> float:
    """Return how many processors (``CPU``) or cards (``GPU``) the cluster has at this moment."""
    import ray

    resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    return float(resources.get(resource, 0.0))


@contextmanager
def connected(address: str | None, processors: int | None) -> Iterator[None]:
    """Be connected to Ray while the block runs.

    Args:
        address: ``host:port`` of a running cluster, or ``auto`` for the one of this machine;
            None starts one that ends with the block.
        processors: Of a cluster that is started here; None for those of this machine.

    Raises:
        MissingExtraError: Ray is not installed.
        InputError: There is no cluster at the address, or this process is connected already.
    """
    if address is not None and address.startswith("ray://"):
        raise InputError(
            f"--ray-address: got {address!r}, expected host:port or auto; run the command on a "
            "node of the cluster, where its stores are mounted"
        )
    if address is None and sys.modules.get("ray") is not None and not _is_private():
        raise InputError(
            "Ray was imported before repalign could keep its cluster to the loopback address; "
            "import it later, or start a cluster and give its --ray-address"
        )
    with environment({} if address else _private()), ExitStack() as stack:
        try:
            import ray
        except ImportError as failure:
            raise MissingExtraError("ray", extra="ray", purpose="--engine ray") from failure
        if ray.is_initialized():
            raise InputError("this process is connected to Ray already; call ray.shutdown() first")
        # Ray puts the folder in which it starts on the path of its workers, on every node: one
        # of ours, or one that exists on all and only the administrator writes into.
        folder = Path("/")
        options: dict[str, Any] = {"address": address}
        if address is None:
            # a short path: sockets in it may have 107 characters in all
            folder = stack.enter_context(private_folder(_short_temporary(), SCRATCH))
            options = {
                "address": "local",
                "num_cpus": processors,
                "include_dashboard": False,
                "object_store_memory": object_store_bytes(),
                "_temp_dir": f"{folder}/{RAY_FOLDER}",
            }
        stack.callback(ray.shutdown)
        # standard output is data, and Ray says there that a process died
        stack.enter_context(redirect_stdout(sys.stderr))
        try:
            _check_answers(address)
            with _signals_kept(), chdir(folder):
                ray.init(logging_level=logging.CRITICAL, log_to_driver=False, **options)
        except Exception as failure:  # where a process does not start, Ray raises just that
            subject = (
                "no cluster of this machine" if address is None else f"no connection to {address!r}"
            )
            advice = (
                "run the command again, or without --engine ray"
                if address is None
                else "start one with `ray start --head`, or leave --ray-address out"
            )
            raise RepalignError(f"Ray: {subject}: {first_line(failure)}; {advice}") from failure
        yield


def object_store_bytes() -> int:
    """Return how much shared memory a cluster of this machine takes, where there is little less."""
    with suppress(OSError):
        free = shutil.disk_usage(SHARED_MEMORY).free
        return max(min(OBJECT_STORE_BYTES, free // 2), SMALLEST_STORE)
    return SMALLEST_STORE


def _check_answers(address: str | None) -> None:
    """Fail within seconds where nothing listens; Ray tries for minutes."""
    parts = urlsplit(f"//{address or ''}")
    if parts.hostname and parts.port:
        socket.create_connection((parts.hostname, parts.port), SECONDS_TO_ANSWER).close()


@contextmanager
def _signals_kept() -> Iterator[None]:
    """Answer SIGTERM afterwards as before; Ray has an answer of its own, which says nothing."""
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if is_main and before is not None:
            signal.signal(signal.SIGTERM, before)


def _is_private() -> bool:
    """Tell whether Ray was imported with the variables of a private cluster."""
    from ray._private.ray_constants import ENABLE_RAY_CLUSTER

    return not ENABLE_RAY_CLUSTER


def _private() -> dict[str, str | None]:
    """Return the variables of a cluster of this machine; None where one must not be set.

    Ray asks for a token by itself where nothing else is said. It is the user's where there is
    one; another is made for this process, since Ray would write one into the home directory.
    """
    variables: dict[str, str | None] = {**PRIVATE, "RAY_AUTH_MODE": None}
    has_token = "RAY_AUTH_TOKEN" in os.environ or "RAY_AUTH_TOKEN_PATH" in os.environ
    if not has_token and not (Path.home() / ".ray" / "auth_token").exists():
        variables["RAY_AUTH_TOKEN"] = _token()
    return variables


@functools.cache
def _token() -> str:
    return secrets.token_hex(32)  # Ray keeps the first one for as long as the process lives


def _short_temporary() -> Path:
    return Path("/tmp") if Path("/tmp").is_dir() else Path(tempfile.gettempdir())
