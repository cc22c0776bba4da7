"""Connecting to Ray: a cluster that runs, or one of this machine alone for as long as it is needed.

A cluster that is started here listens on the loopback address only, shows no dashboard, reports
nothing to anybody, takes calls only with a token made for it, and leaves no files.
"""

import functools
import logging
import os
import secrets
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import Any, TextIO, cast

from repalign.exceptions import InputError, MissingExtraError, RepalignError
from repalign.printable import printable

# Arrays that units share, and results on their way; what does not fit goes to the disk.
OBJECT_STORE_BYTES = 2**30
SMALLEST_STORE = 80 * 2**20
SHARED_MEMORY = "/dev/shm"
# The thread in which Ray prints, on standard output, that a process or a node died.
LISTENER = "ray_listen_error_messages"
LONGEST_LINE = 200
PRIVATE = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # On Linux too this is what makes every service of a local cluster bind to loopback.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
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
    with _environment({} if address else _private()):
        ray = _import_ray()
        if ray.is_initialized():
            raise InputError("this process is connected to Ray already; call ray.shutdown() first")
        scratch = None
        if address is None:
            # a short path: sockets in it may have 107 characters in all
            scratch = tempfile.mkdtemp(prefix="repalign-ray-", dir=_short_temporary())
        try:
            with redirect_stdout(cast(TextIO, WithoutRay(sys.stdout))):
                _connect(ray, address, workers, scratch)
                yield
        finally:
            ray.shutdown()
            if scratch is not None:
                _remove(scratch)


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


def _connect(ray: Any, address: str | None, workers: int | None, scratch: str | None) -> None:
    quiet = {"logging_level": logging.CRITICAL, "log_to_driver": False}
    try:
        if address is None:
            ray.init(
                address="local",
                num_cpus=workers,
                include_dashboard=False,
                object_store_memory=object_store_bytes(),
                _temp_dir=scratch,
                **quiet,
            )
        else:
            ray.init(address=address, **quiet)
    except (ConnectionError, ValueError, RuntimeError) as failure:
        where = "a cluster of this machine" if address is None else repr(address)
        raise RepalignError(
            f"Ray: no connection to {where}: {failure}; start one with `ray start --head`, or "
            "leave --ray-address out"
        ) from failure


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


def _remove(scratch: str) -> None:
    """Remove the files of a cluster that ends: its last processes may still write a line."""
    for _ in range(20):
        shutil.rmtree(scratch, ignore_errors=True)
        if not Path(scratch).exists():
            return
        time.sleep(0.1)


def _short_temporary() -> str | None:
    return "/tmp" if os.path.isdir("/tmp") else None  # noqa: PTH112


@contextmanager
def _environment(values: Mapping[str, str | None]) -> Iterator[None]:
    """Set variables while the block runs."""
    before = {name: os.environ.get(name) for name in values}
    _set(values)
    try:
        yield
    finally:
        _set(before)


def _set(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
