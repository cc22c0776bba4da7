"""A child for each case: one process imports what is needed and forks, which takes milliseconds.

A child is a session of its own with its own folder, streams and limits. It is ended after a time,
and what it printed, how it ended and what memory it took are told.
"""

import importlib
import os
import pickle
import pkgutil
import resource
import select
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import repalign

SECONDS = 30.0
# Far above what any case may take, so that a machine of other people is not brought down.
DATA_BYTES = 4 * 2**30
# Imported within functions of the package.
HEAVY = (
    "lightgbm", "matplotlib.backends.backend_agg", "matplotlib.backends.backend_svg",
    "matplotlib.font_manager", "pandas", "pyarrow.parquet", "rich.progress", "scipy.io",
    "scipy.stats", "sklearn.ensemble", "sklearn.linear_model", "sklearn.decomposition", "timm",
    "torch._dynamo", "torchvision", "transformers.models.auto.modeling_auto",
    "transformers.models.gpt_neox.modeling_gpt_neox", "transformers.models.auto.tokenization_auto",
    "transformers.models.auto.image_processing_auto",
)  # fmt: skip
PAGE = resource.getpagesize()


def import_all() -> None:
    """Import whatever a command may need, so that no child has to.

    Caches that libraries write when they are imported go where they belong, too.
    """
    for each in pkgutil.walk_packages(repalign.__path__, "repalign."):
        if not each.name.endswith(("__main__", "_process")):
            importlib.import_module(each.name)
    for name in HEAVY:
        with suppress(ImportError):
            importlib.import_module(name)


@dataclass(frozen=True)
class Limits:
    """What a child may use beyond what it has at its start; None is no limit.

    The time is for each of so many results.
    """

    seconds: float = SECONDS
    data_bytes: int | None = DATA_BYTES
    address_bytes: int | None = None
    file_bytes: int | None = None
    files: int | None = None
    times: int = 1


@dataclass(frozen=True)
class Ended:
    """How a child ended.

    Args:
        status: exit code, or the number of the signal below zero.
        is_hung: whether it had to be ended.
        peak: bytes of memory beyond what its parent had.
        printed: what it wrote to stdout.
        said: what it wrote to stderr.
        found: what its function returned, if it came back; if it yields, all of it.
    """

    status: int
    is_hung: bool
    seconds: float
    peak: int
    printed: str
    said: str
    found: list[Any] = field(default_factory=list, repr=False)


def forked(
    act: Callable[[], Any],
    folder: Path,
    *,
    limits: Limits | None = None,
    environment: Mapping[str, str] | None = None,
    attach: Callable[[int], Callable[[], object]] | None = None,
) -> Ended:
    """Run a function in a child and return how that ended.

    Args:
        act: the function; its result, or the exit code of a SystemExit, comes back. One that
            yields has the time for every result anew.
        folder: where the child runs.
        limits: of the child.
        environment: variables that are set in the child.
        attach: called with the child's number before it begins; what it returns is called at
            the end.
    """
    limits = limits or Limits()
    begun = time.monotonic()
    with (
        tempfile.TemporaryFile() as printed,
        tempfile.TemporaryFile() as said,
        tempfile.TemporaryFile() as found,
    ):
        waiting, going = os.pipe()
        sys.stdout.flush()  # else the child has it too
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # threads of libraries, all idle
            child = os.fork()
        if not child:
            os.close(going)
            _child(act, folder, limits, environment or {}, (waiting, printed, said, found))
        os.close(waiting)
        detach = attach(child) if attach else None
        os.close(going)  # the child reads the end of the pipe, and begins
        is_hung = not _ended_within(
            child, limits.seconds * (1 if limits.times == 1 else 2 + limits.times)
        )
        _kill_session(child)
        _, status, used = os.wait4(child, 0)
        _kill_session(child)
        if detach:
            detach()
        before, result = _told(found)
        code = os.waitstatus_to_exitcode(status)
        return Ended(
            code,
            is_hung or code == -signal.SIGALRM,
            time.monotonic() - begun,
            max(0, used.ru_maxrss * 1024 - before),
            _text(printed),
            _text(said),
            result,
        )


def _child(
    act: Callable[[], Any],
    folder: Path,
    limits: Limits,
    environment: Mapping[str, str],
    streams: tuple[int, IO[bytes], IO[bytes], IO[bytes]],
) -> None:
    """Run the function and leave; never returns."""
    status = 70
    try:
        waiting, printed, said, found = streams
        os.setsid()
        os.read(waiting, 1)
        os.close(waiting)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for given, number in ((nothing, 0), (printed.fileno(), 1), (said.fileno(), 2)):
            os.dup2(given, number)
        os.chdir(folder)
        os.environ.update(environment)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _limit(limits)
        pickle.dump(_resident(), found)
        found.flush()
        try:
            result, status = act(), 0
        except SystemExit as leaving:
            result = status = leaving.code if isinstance(leaving.code, int) else 0
        for each in _each(result, int(limits.seconds)):
            pickle.dump(each, found)
            found.flush()
    except BaseException:  # noqa: BLE001
        import traceback

        os.write(2, traceback.format_exc().encode(errors="replace"))
        status = 70
    finally:
        os._exit(status)


def _each(result: Any, seconds: int) -> Iterator[Any]:
    """Yield what a function yields; the system ends the process if one takes too long."""
    if not isinstance(result, Iterator):
        yield result
        return
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(seconds)
    for each in result:
        yield each
        signal.alarm(seconds)


def _limit(limits: Limits) -> None:
    data, address = _mapped()
    for kind, more, there in (
        (resource.RLIMIT_DATA, limits.data_bytes, data),
        (resource.RLIMIT_AS, limits.address_bytes, address),
        (resource.RLIMIT_FSIZE, limits.file_bytes, 0),
        (resource.RLIMIT_NOFILE, limits.files, 0),
    ):
        if more is not None:
            resource.setrlimit(kind, (there + more, there + more))
    resource.setrlimit(resource.RLIMIT_CPU, (int(limits.seconds * limits.times) + 5,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _mapped() -> tuple[int, int]:
    """Return the bytes of data and of all that is mapped."""
    sizes = Path("/proc/self/statm").read_text().split()
    return int(sizes[5]) * PAGE, int(sizes[0]) * PAGE


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def _ended_within(child: int, seconds: float) -> bool:
    handle = os.pidfd_open(child)
    try:
        waiting = select.poll()
        waiting.register(handle, select.POLLIN)
        return bool(waiting.poll(seconds * 1000))
    finally:
        os.close(handle)


def _kill_session(child: int) -> None:
    """End the child and what it started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)


def _text(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read(200_000).decode(errors="backslashreplace")


def _told(stream: IO[bytes]) -> tuple[int, list[Any]]:
    """Return the memory that a child had at its start, and the results of its function."""
    stream.seek(0)
    told: list[Any] = []
    with suppress(EOFError, pickle.UnpicklingError):
        while True:
            told.append(pickle.load(stream))
    return (told[0] if told else 0), told[1:]
