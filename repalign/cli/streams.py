"""The three streams that a process is given: closed, full, or of an encoding that knows little."""

import io
import os
import sys

from repalign.cli.talk import Talk


class ClosedStream(io.TextIOBase):
    """Stands for a stream that was closed before the start: to write into it is a failure."""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """Name of the encoding."""
        return "utf-8"

    def write(self, text: str) -> int:
        """Refuse."""
        raise OSError("stdout is closed; give --output, or leave stdout open")


def prepare_streams() -> None:
    """Make every text writable, and every stream something that can be asked.

    A letter that the encoding of a stream does not know is shown by its number. A descriptor that
    is closed is opened to nothing, lest the first file that is opened gets its number and whatever
    a library prints.
    """
    while (opened := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(opened)
    if sys.stdout is None:
        sys.stdout = ClosedStream()
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def finish_streams(code: int) -> int:
    """Write what stdout still holds; return the exit code, 1 if that fails after a success."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError) as failure:
        drop_stdout()
        if code == 0:
            Talk().error(f"stdout: {getattr(failure, 'strerror', None) or failure}")
            return 1
    return code


def drop_stdout() -> None:
    """Let what stdout still holds go nowhere, so that Python does not complain at its end."""
    try:
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, sys.stdout.fileno())
        os.close(nothing)
    except (OSError, ValueError):  # it has no descriptor
        sys.stdout = ClosedStream()
