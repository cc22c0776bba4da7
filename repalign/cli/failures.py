"""What a failure is called on stderr, and the exit code that goes with it."""

import errno
import os
import sys
import traceback
from collections.abc import Sequence

from repalign.exceptions import RepalignError, first_line
from repalign.printable import printable

FAILED, BUG, INTERRUPTED, TERMINATED = 1, 70, 130, 143
# Values of REPALIGN_DEBUG that mean no.
OFF = {"", "0", "false", "no", "off"}
_MEMORY = (
    "failed to map segment",
    "cannot allocate memory",
    "can't allocate memory",
    "not enough memory",
    "out of memory",
)


class Terminated(KeyboardInterrupt):
    """SIGTERM came, as schedulers send it when the time of a job is over; ends like Ctrl-C."""


def is_out_of_memory(failure: BaseException) -> bool:
    """Return whether memory has run out, also while a library was loaded."""
    if isinstance(failure, MemoryError):
        return True
    if isinstance(failure, OSError):
        return failure.errno == errno.ENOMEM
    is_candidate = isinstance(failure, ImportError | RuntimeError)
    return is_candidate and any(sign in str(failure).lower() for sign in _MEMORY)


def is_expected(failure: BaseException) -> bool:
    """Return whether the input, the machine or the user failed, not repalign."""
    expected = RepalignError | OSError | KeyboardInterrupt
    return isinstance(failure, expected) or is_out_of_memory(failure)


def explain(failure: BaseException) -> str:
    """Return in one line what went wrong."""
    if isinstance(failure, RepalignError):
        return str(failure)
    if isinstance(failure, KeyboardInterrupt):
        what = "terminated" if isinstance(failure, Terminated) else "interrupted"
        return f"{what}; what was committed is kept, nothing is half-written"
    if is_out_of_memory(failure):
        return "out of memory; free some, or allow more (ulimit -v, the memory of the job)"
    if isinstance(failure, OSError):
        return _explain_os_error(failure)
    notes = "".join(f", {note}" for note in getattr(failure, "__notes__", ()))
    return (
        f"{type(failure).__name__}: {first_line(failure)}{notes}; this is a bug of repalign, "
        "please report it with the output of the same command with --debug"
    )


def exit_code_of(failure: BaseException) -> int:
    """Return the exit code of a failure."""
    if isinstance(failure, RepalignError):
        return failure.exit_code
    if isinstance(failure, KeyboardInterrupt):
        return TERMINATED if isinstance(failure, Terminated) else INTERRUPTED
    return FAILED if is_expected(failure) else BUG


def report_failure(failure: BaseException) -> int:
    """Write a failure to stderr, with --debug its traceback; return the exit code."""
    if is_debugging(sys.argv[1:]):
        traceback.print_exception(failure)
    else:
        sys.stderr.write(f"error: {printable(' '.join(explain(failure).split()))}\n")
    return exit_code_of(failure)


def is_debugging(words: Sequence[str] = ()) -> bool:
    """Return whether tracebacks were asked for, on the line or by the environment."""
    end = words.index("--") if "--" in words else len(words)
    return "--debug" in words[:end] or os.environ.get("REPALIGN_DEBUG", "").lower() not in OFF


def _explain_os_error(failure: OSError) -> str:
    """Return what the system refused, and of which file."""
    where = f"{failure.filename}: " if failure.filename else ""
    what = failure.strerror or str(failure)
    if failure.errno == errno.EEXIST:
        what = "is there already and no folder; choose another name"
    if failure.errno == errno.ENOSPC:
        what += "; free some space and run the same command again"
    return where + what
