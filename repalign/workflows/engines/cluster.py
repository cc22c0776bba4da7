"""Connecting to Ray: a cluster that runs, or one of this machine alone for as long as it is needed.

A cluster that is started here listens on the loopback address only, shows no dashboard, reports
nothing to anybody, takes calls only with a token made for it, and leaves no files.
"""

import functools
import logging
import os
import secrets
import shutil
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, chdir, contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import Any, TextIO, cast
from urllib.parse import urlsplit

from repalign.exceptions import InputError, MissingExtraError, RepalignError, first_line
from repalign.files import private_folder
from repalign.printable import printable
from repalign.workflows.environment import environment

# Arrays that units share, and results on their way; what does not fit goes to the disk.
OBJECT_STORE_BYTES = 2**30
SMALLEST_STORE = 80 * 2**20
SHARED_MEMORY = "/dev/shm"
SCRATCH = "repalign-ray-"
# Ray opens the folder that it is given to everybody: it is one inside ours, which is closed.
RAY_FOLDER = "r"
# Ray puts the folder in which it starts on the path of its workers, on every node: this one exists
# on all of them, and only the administrator writes into it.
ROOT = "/"
# How Ray starts what nothing here needs: what adds machines, serves a page, copies logs.
NEEDLESS = ("start_monitor", "start_api_server", "start_log_monitor")
# The thread in which Ray prints, on standard output, that a process or a node died.
LISTENER = "ray_listen_error_messages"
LONGEST_LINE = 200
SECONDS_TO_ANSWER = 10
# Ray listens by gRPC, which is HTTP/2: both sides begin with a frame of settings, ours empty. A
# frame has a header of nine bytes, the fourth of which is its type.
HTTP2_HEADER, HTTP2_SETTINGS = 9, b"\x04"
HTTP2_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0" + HTTP2_SETTINGS + b"\0" * 5
PRIVATE = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # On Linux too this is what makes every service of a local cluster bind to loopback.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    # No traces of ours and of C++ where SIGTERM ends the command.
    "RAY_DISABLE_FAILURE_SIGNAL_HANDLER": "1",
}


@contextmanager
def connected(address: str | None, workers: int | None) -> Iterator[None]:
    """Be connected to Ray while the block runs.

    Args:
        address: ``host:port`` of a running cluster, or ``auto`` for the one of this machine;
            None starts one, of ``workers`` processors, that ends with the block.
        workers: Processors of a cluster that is started here; None for those of this machine.

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
    with environment({} if address else _private()):
        ray = _import_ray()
        if ray.is_initialized():
            raise InputError("this process is connected to Ray already; call ray.shutdown() first")
        with ExitStack() as stack:
            scratch = None
            if address is None:
                # a short path: sockets in it may have 107 characters in all
                scratch = stack.enter_context(private_folder(_short_temporary(), SCRATCH))
            stack.callback(ray.shutdown)
            stack.enter_context(redirect_stdout(cast(TextIO, WithoutRay(sys.stdout))))
            with _signals_kept():
                _connect(ray, address, workers, scratch)
            yield


class WithoutRay:
    """Standard output, without what Ray says of processes that died: of that a line on stderr."""

    def __init__(self, real: TextIO) -> None:
        self._real = real

    def write(self, text: str) -> int:
        """Write what is not Ray's."""
        if threading.current_thread().name != LISTENER:
            return self._real.write(text)
        for line in text.strip().splitlines()[:1]:
            sys.stderr.write(f"{printable(line)[:LONGEST_LINE]}\n")
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def object_store_bytes() -> int:
    """Return how much shared memory a cluster of this machine takes, where there is little less."""
    with suppress(OSError):
        free = shutil.disk_usage(SHARED_MEMORY).free
        return max(min(OBJECT_STORE_BYTES, free // 2), SMALLEST_STORE)
    return SMALLEST_STORE


def cluster_has(resource: str) -> float:
    """Return how many processors (``CPU``) or cards (``GPU``) the cluster has at this moment."""
    import ray

    found: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    return float(found.get(resource, 0.0))


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


def _connect(ray: Any, address: str | None, workers: int | None, scratch: Path | None) -> None:
    quiet = {"logging_level": logging.CRITICAL, "log_to_driver": False}
    try:
        if address is None:
            with chdir(str(scratch)), _only_needed():
                ray.init(
                    address="local",
                    num_cpus=workers,
                    include_dashboard=False,
                    object_store_memory=object_store_bytes(),
                    _temp_dir=f"{scratch}/{RAY_FOLDER}",
                    **quiet,
                )
        else:
            _check_answers(address)
            with chdir(ROOT):
                ray.init(address=address, **quiet)
    except Exception as failure:  # where a process of its own does not start, Ray raises just that
        why = first_line(failure)
        if address is None:
            raise RepalignError(
                f"Ray: no cluster of this machine: {why}; run the command again, or without "
                "--engine ray"
            ) from failure
        raise RepalignError(
            f"Ray: no connection to {address!r}: {why}; start one with `ray start --head`, or "
            "leave --ray-address out"
        ) from failure


def _check_answers(address: str) -> None:
    """Fail within seconds where nothing listens, or something else; Ray tries for minutes."""
    asked = urlsplit(address if "://" in address else f"//{address}")
    if not (asked.hostname and asked.port):
        return
    place = asked.hostname, asked.port
    with socket.create_connection(place, timeout=SECONDS_TO_ANSWER) as connection:
        if os.environ.get("RAY_USE_TLS", "0") != "0":
            return  # what listens is asked by Ray alone, which has the certificates
        connection.sendall(HTTP2_GREETING)
        answer = b""
        with suppress(OSError):  # silent until the time is over, or hung up
            while len(answer) < HTTP2_HEADER and (more := connection.recv(HTTP2_HEADER)):
                answer += more
    if answer[3:4] != HTTP2_SETTINGS:
        raise RuntimeError("what listens there is not Ray (it does not speak HTTP/2)")


@contextmanager
def _only_needed() -> Iterator[None]:
    """Leave out what nothing here needs: a third of the work of a start, a second at its end."""
    from ray._private.node import Node

    with ExitStack() as stack:
        for name in NEEDLESS:
            # of a Ray that no longer has it nothing is left out
            if (before := getattr(Node, name, None)) is not None:
                setattr(Node, name, lambda node, **options: None)
                stack.callback(setattr, Node, name, before)
        yield


def _import_ray() -> Any:
    try:
        import ray
    except ImportError as failure:
        raise MissingExtraError("ray", extra="ray", purpose="--engine ray") from failure
    return ray


def _is_private() -> bool:
    """Tell whether Ray was imported with the variables of a private cluster."""
    from ray._private.ray_constants import ENABLE_RAY_CLUSTER

    return not ENABLE_RAY_CLUSTER


def _private() -> dict[str, str | None]:
    """Return the variables of a cluster of this machine; None where one must not be set.

    Ray asks for a token by itself where nothing else is said. It is the user's where there is
    one; another is made for this process, since Ray would write one into the home directory.
    """
    found: dict[str, str | None] = {**PRIVATE, "RAY_AUTH_MODE": None}
    has_token = "RAY_AUTH_TOKEN" in os.environ or "RAY_AUTH_TOKEN_PATH" in os.environ
    if not has_token and not (Path.home() / ".ray" / "auth_token").exists():
        found["RAY_AUTH_TOKEN"] = _token()
    return found


@functools.cache
def _token() -> str:
    return secrets.token_hex(32)  # Ray keeps the first one for as long as the process lives


def _short_temporary() -> Path:
    return Path("/tmp") if Path("/tmp").is_dir() else Path(tempfile.gettempdir())
