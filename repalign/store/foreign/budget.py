"""What a foreign file may become: a small one must not fill the memory or the disk."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from repalign.exceptions import InputError

VARIABLE = "REPALIGN_FOREIGN_BYTES"
# A copy of the values, on disk. Real embeddings compress by less than two.
MAX_EXPANSION = 64
COPY_ALLOWANCE = 2**28
# What is held in memory beside them: ids, token positions, hashes.
IDENTITY_BYTES = 2**29
# A chunk is expanded as a whole, however few of its rows are wanted.
MAX_CHUNK_BYTES = 2**30
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


@contextmanager
def allowing(text: str) -> Iterator[None]:
    """Allow so much while the block runs, as the variable does.

    Raises:
        InputError: the text is no size.
    """
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = text
    try:
        _told()
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before


def check_copy(path: Path, n_bytes: int, *, label: str) -> None:
    """Check that a file does not expand to more than it may.

    Raises:
        InputError: it does.
    """
    check_expansion(path.stat().st_size, n_bytes, label=label)


def check_expansion(stored: int, n_bytes: int, *, label: str) -> None:
    """Check that compressed bytes do not expand to more than they may, copied or read in place.

    Raises:
        InputError: they do.
    """
    _check(n_bytes, max(COPY_ALLOWANCE, MAX_EXPANSION * stored), label, f"{stored} bytes expand to")


def check_identities(n_bytes: int, *, label: str) -> None:
    """Check that the identities of rows do not take more memory than they may.

    Raises:
        InputError: they do.
    """
    _check(n_bytes, IDENTITY_BYTES, label, "what identifies the rows takes")


def _check(n_bytes: int, default: int, label: str, what: str) -> None:
    allowed = _told()
    allowed = default if allowed is None else allowed
    if n_bytes > allowed:
        raise InputError(
            f"{label}: {what} {n_bytes} bytes, at most {allowed} are allowed; if that is meant, "
            f"set {VARIABLE}={-(-n_bytes // 2**30)}G, or give --foreign-bytes before the command"
        )


def _told() -> int | None:
    """Return what the environment allows, or None."""
    text = os.environ.get(VARIABLE, "").strip()
    if not text:
        return None
    match = re.fullmatch(r"(\d{1,15})([KMGT]?)B?", text.upper())
    if match is None:
        raise InputError(f"{VARIABLE}: got {text!r}, expected a size such as 8G")
    return int(match[1]) * _UNITS[match[2]]
