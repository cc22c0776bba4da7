"""What parsers raise on damaged files, told in one line as a refusal of the file."""

import pickle
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

from repalign.exceptions import InputError, RepalignError, first_line

DAMAGE: tuple[type[Exception], ...] = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    BufferError,
    EOFError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    SyntaxError,
    SystemError,
    TypeError,
    ValueError,
    pickle.UnpicklingError,
    struct.error,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)


@contextmanager
def refuse_damage(complaint: str, *others: type[Exception]) -> Iterator[None]:
    """Turn what a parser raises into an InputError of a complaint and the parser's reason.

    Args:
        complaint: the file and what is wrong with it.
        others: kinds of errors that this parser raises beside those of ``DAMAGE``.
    """
    try:
        yield
    except RepalignError:
        raise
    except (*DAMAGE, *others) as error:
        raise InputError(f"{complaint} ({first_line(error)})") from error
