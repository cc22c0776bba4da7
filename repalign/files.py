"""Files as they come in and go out: what is read is a regular file, what is written is whole."""

import os
import stat
from pathlib import Path
from typing import BinaryIO

from repalign.exceptions import InputError, RepalignError

_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


def open_regular(path: str | Path, *, failure: type[RepalignError] = InputError) -> BinaryIO:
    """Open a file for reading; a pipe or device, which may never answer, is refused at once.

    Links are followed. A name that stands for something else by now is refused as well.

    Args:
        path: The file.
        failure: What to raise.

    Raises:
        InputError: There is no such file, it cannot be read, or it is no regular file; or
            ``failure``, where one was given.
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
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise failure(_unreadable(path, error)) from error
    raise failure(_not_regular(path, kind))


def check_regular(path: str | Path, *, failure: type[RepalignError] = InputError) -> None:
    """Check that a file which a library will open by its name is one that ``open_regular`` opens.

    Raises:
        InputError: It is not; or ``failure``, where one was given.
    """
    open_regular(path, failure=failure).close()


def _unreadable(path: str | Path, error: OSError | ValueError) -> str:
    if isinstance(error, FileNotFoundError):
        return f"{path}: there is no such file"
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return f"{path}: cannot be read ({reason})"


def _not_regular(path: str | Path, kind: int) -> str:
    found = _KINDS.get(kind, "something else")
    advice = "" if kind == stat.S_IFDIR else "; write its content into a file first"
    return f"{path}: is {found}, expected a file{advice}"
