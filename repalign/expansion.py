"""The one limit on what a file may become: a small one must not fill the memory or the disk.

Readers compare what a file declares with it before they allocate anything.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from repalign.exceptions import InputError

VARIABLE = "REPALIGN_FOREIGN_BYTES"
# Real embeddings compress by less than two, and an id is text of Python besides its letters.
MAX_EXPANSION = 64
ALLOWANCE = 2**29
TEXT_BYTES = 57  # of a text of Python besides its letters, with its place in a list
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


@contextmanager
def allowing(text: str) -> Iterator[None]:
    """Allow so much while the block runs, as the variable does.

    Raises:
        InputError: the text is not a size.
    """
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = text
    try:
        _limit(0)
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


def check_expansion(stored: int, n_bytes: int, *, label: str, subject: str = "") -> None:
    """Check that stored bytes do not expand to more than they may, in memory or on the disk.

    Args:
        stored: the bytes of the file.
        n_bytes: what they become.
        label: the file, for messages.
        subject: what becomes so large, for messages.

    Raises:
        InputError: they do.
    """
    limit = _limit(stored)
    if n_bytes > limit:
        raise InputError(
            f"{label}: {subject or f'{stored} bytes expand to'} {n_bytes} bytes, at most {limit} "
            f"are allowed; if that is meant, set {VARIABLE}={-(-n_bytes // 2**30)}G, or give "
            "--foreign-bytes before the command"
        )


def check_identities(n_bytes: int, *, label: str, stored: int = 0) -> None:
    """Check that the identities of rows do not take more memory than they may.

    Args:
        n_bytes: what they take, ``TEXT_BYTES`` and its letters for each text.
        label: the file, for messages.
        stored: its size, where many rows are to be expected in a large one.

    Raises:
        InputError: they do.
    """
    check_expansion(stored, n_bytes, label=label, subject="what identifies the rows takes")


def _limit(stored: int) -> int:
    """Return what stored bytes may become: what the environment allows, or the default."""
    text = os.environ.get(VARIABLE, "").strip()
    if not text:
        return max(ALLOWANCE, MAX_EXPANSION * stored)
    match = re.fullmatch(r"(\d{1,15})([KMGT]?)B?", text.upper())
    if match is None:
        raise InputError(f"{VARIABLE}: got {text!r}, expected a size such as 8G")
    return int(match[1]) * _UNITS[match[2]]
