"""Files as they come in and go out: what is read is a regular file, what is written is whole."""

import hashlib
import os
import re
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from fcntl import LOCK_EX, LOCK_NB, flock
from functools import cache
from io import BufferedReader
from pathlib import Path

from repalign.exceptions import InputError, RepalignError

_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}
STDOUT = Path("-")
_MOST_LINKS = 40
# Where an output is written until it is whole, next to it.
UNFINISHED = ".repalign-"
LOCK = "lock"
_protected: ContextVar[tuple[Path, ...]] = ContextVar("protected", default=())


def open_regular(path: str | Path, *, failure: type[RepalignError] = InputError) -> BufferedReader:
    """Open a file for reading; a pipe or device, which may never answer, is refused at once.

    Links are followed. A name that stands for something else by now is refused as well.

    Args:
        path: The file.
        failure: What to raise.

    Raises:
        InputError: There is no such file, it cannot be read, or it is no regular file; or
            ``failure``.
    """
    try:
        # Looked at before, since opening alone ends the program that waits to write into a pipe,
        # and after, since the name may have changed hands. O_NONBLOCK means nothing to a file.
        kind = stat.S_IFMT(Path(path).stat().st_mode)
        if kind == stat.S_IFREG:
            handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
            kind = stat.S_IFMT(os.fstat(handle).st_mode)
            if kind == stat.S_IFREG:
                return os.fdopen(handle, "rb")
            os.close(handle)
    except FileNotFoundError as error:
        raise failure(f"{path}: there is no such file") from error
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise failure(f"{path}: cannot be read ({_reason(error)})") from error
    advice = "" if kind == stat.S_IFDIR else "; write its content into a file first"
    raise failure(f"{path}: is {_kind_name(kind)}, expected a file{advice}")


def file_sha256(path: str | Path) -> str:
    """Return the sha256 of a file, as hexadecimal digits.

    Raises:
        InputError: As ``open_regular``.
    """
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_local(path: str | Path, *, failure: type[RepalignError] = InputError) -> None:
    """Check that a path that is not there is no URL: files are opened, locked and renamed.

    Raises:
        InputError: It is one; or ``failure``.
    """
    if re.match("[a-z][a-z0-9+.-]+:/", str(path)):
        raise failure(
            f"{path}: is a URL; expected a path: mount the storage, or copy the file here"
        )


def check_regular(path: str | Path, *, failure: type[RepalignError] = InputError) -> None:
    """Check that a file which a library will open by its name is one that ``open_regular`` opens.

    Raises:
        InputError: It is not; or ``failure``.
    """
    open_regular(path, failure=failure).close()


@contextmanager
def protecting(inputs: Iterable[str | Path]) -> Iterator[None]:
    """Refuse, while the block runs, every output that is one of these files or lies in them."""
    token = _protected.set((*_protected.get(), *map(Path, inputs)))
    try:
        yield
    finally:
        _protected.reset(token)


@contextmanager
def writing(
    path: str | Path,
    *,
    overwrite: bool = True,
    failure: type[RepalignError] = InputError,
    scratch: Path | None = None,
) -> Iterator[Path]:
    """Give the name of a new file; when the block ends without failure it becomes the output.

    A regular file is replaced in one step and keeps its permissions: a reader sees the old
    content or the new one. A link is followed and stays. A device, a pipe and ``-`` (standard
    output) are written into.

    Args:
        path: The output.
        overwrite: Whether a file that is there may be replaced.
        failure: What to raise.
        scratch: A directory next to the output for the unfinished file; by default a new one.

    Raises:
        InputError: The output cannot be written, is one of the protected inputs, or is there and
            may not be replaced; or ``failure``.
    """
    target = check_output(path, overwrite=overwrite, failure=failure)
    if target is None:
        with tempfile.TemporaryDirectory(prefix="repalign-") as folder:
            whole = Path(folder) / "output.tmp"
            yield whole
            _write_into(path, whole)
        return
    with ExitStack() as stack:
        # a link may lead to another disk, onto which nothing is renamed
        if scratch is None or scratch.parent.resolve() != target.parent:
            scratch = stack.enter_context(private_folder(target.parent, UNFINISHED))
        whole = scratch / ".output.tmp"
        stack.callback(whole.unlink, missing_ok=True)
        yield whole
        if target.exists():
            whole.chmod(target.stat().st_mode & 0o777)
        sync_file(whole)
        whole.replace(target)
    with suppress(OSError):  # a directory that may only be written, or on a file system that cannot
        sync_file(target.parent)


@contextmanager
def private_folder(parent: Path, prefix: str) -> Iterator[Path]:
    """Make a folder of an unforeseeable name that only this user enters, and remove it afterwards.

    Its process holds a lock in it until it ends, however that is; folders of the same prefix whose
    process has ended are removed.

    Args:
        parent: The folder to make it in.
        prefix: How its name begins.
    """
    _remove_abandoned(parent, prefix)
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    try:
        with (folder / "new").open("w") as lock:
            with suppress(OSError):  # a file system without locks
                flock(lock, LOCK_EX)
            (folder / "new").rename(folder / LOCK)
            yield folder
    finally:
        _remove(folder)


@cache
def _remove_abandoned(parent: Path, prefix: str) -> None:
    """Remove, once in the life of a process, the private folders of processes that were killed."""
    for folder in parent.glob(f"{prefix}*"):
        with suppress(OSError):  # its process lives, another removes it, or it is another user's
            if folder.lstat().st_uid == os.getuid():
                with (folder / LOCK).open() as lock:
                    flock(lock, LOCK_EX | LOCK_NB)
                    shutil.rmtree(folder, ignore_errors=True)


def _remove(folder: Path) -> None:
    """Remove a folder into which a process that ends may still write a line."""
    for _ in range(20):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.1)


def ensure_directory(path: str | Path) -> Path:
    """Return a directory to write into, made where it is not there.

    Raises:
        InputError: It cannot be made.
    """
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path}: the directory cannot be made ({_reason(error)})") from error
    return folder


def check_output(
    path: str | Path, *, overwrite: bool = True, failure: type[RepalignError] = InputError
) -> Path | None:
    """Return the file to replace, links followed; None if the output is to be written into.

    Raises:
        InputError: As ``writing``; or ``failure``.
    """
    if Path(path) == STDOUT:
        return None
    try:
        target = _follow_links(Path(path))
        status = Path(path).stat() if isinstance(target, int) or target.exists() else None
    except (OSError, ValueError, RuntimeError) as error:
        raise failure(f"{path}: cannot be written ({_reason(error)})") from error
    if status is None:
        assert isinstance(target, Path), "a descriptor exists"
        if not target.parent.is_dir():
            check_local(path, failure=failure)
            raise failure(f"{path}: there is no directory {target.parent}; make it first")
        return target
    kind = stat.S_IFMT(status.st_mode)
    if isinstance(target, int) or kind in (stat.S_IFIFO, stat.S_IFCHR):
        return None
    if kind != stat.S_IFREG:
        raise failure(f"{path}: is {_kind_name(kind)}, expected a file to write")
    check_no_input(path, target, failure=failure)
    if not overwrite:
        raise failure(f"{path}: already exists; choose another name or allow overwriting")
    if not os.access(target, os.W_OK):
        raise failure(f"{path}: may only be read; choose another name")
    return target


def _follow_links(path: Path) -> Path | int:
    """Return what a path leads to, be it there or not; the number of an open descriptor.

    ``/dev/stdout`` of ``repalign … > file`` leads to that file, but to replace it, or to open it
    once more, would not continue where the shell has it.
    """
    for _ in range(_MOST_LINKS):
        folder = path.parent.resolve()
        if str(folder) == f"/proc/{os.getpid()}/fd" and path.name.isdecimal():
            return int(path.name)
        if not path.is_symlink():
            return folder / path.name if path.name else folder
        _check_link(folder / path.name)
        path = folder / path.readlink()
    raise RuntimeError("too many links")


def _check_link(path: Path) -> None:
    """Refuse a link of another user in a shared directory, as the system does on opening."""
    folder, link = path.parent.stat(), path.lstat()
    shared = stat.S_ISVTX | stat.S_IWOTH
    if folder.st_mode & shared == shared and link.st_uid not in (os.geteuid(), folder.st_uid):
        raise RuntimeError("a link of another user, in a directory that all users may write")


def check_no_input(
    path: str | Path, target: Path | None = None, *, failure: type[RepalignError] = InputError
) -> None:
    """Check that what is there may go: a file or directory that is, lies in or holds no input.

    Args:
        path: The output, as it was given.
        target: What it leads to, where that is known.
        failure: What to raise.

    Raises:
        InputError: It is one of the protected inputs; or ``failure``.
    """
    target = Path(path) if target is None else target
    for source in _protected.get():
        with suppress(OSError, ValueError):  # an input that is not there is not in danger
            if source.samefile(target):
                raise failure(f"{path}: is the input {source}; choose another name for the output")
            output, real_source = target.resolve(), source.resolve(strict=True)
            if source.is_dir() and output.is_relative_to(real_source):
                raise failure(f"{path}: lies in {source}, which is an input; choose another name")
            if real_source.is_relative_to(output):
                raise failure(f"{path}: holds the input {source}; choose another name")


def _write_into(path: str | Path, whole: Path) -> None:
    """Copy a whole output into a device, a pipe or an open descriptor."""
    sys.stdout.flush()
    with whole.open("rb") as source:
        if Path(path) == STDOUT:
            shutil.copyfileobj(source, sys.stdout.buffer)
            sys.stdout.buffer.flush()
            return
        target = _follow_links(Path(path))
        flags = os.O_WRONLY | os.O_CLOEXEC | os.O_NOCTTY
        handle = os.dup(target) if isinstance(target, int) else os.open(target, flags)
        with os.fdopen(handle, "wb") as sink:
            shutil.copyfileobj(source, sink)


def sync_file(path: Path) -> None:
    """Make a file, or the names in a directory, survive a loss of power."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _kind_name(kind: int) -> str:
    return _KINDS.get(kind, "something else")
