"""Calls of model libraries, whose errors for values of a checkpoint are ModelErrors."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec, TypeVar

from repalign.exceptions import ModelError, RepalignError, first_line

P = ParamSpec("P")
R = TypeVar("R")

# transformers, timm and torch take the values of a config as they are and fail, in their own code,
# at the first that does not fit: a number in place of a list (TypeError, AttributeError), a name
# that they do not have (KeyError, ImportError), a size of zero (ZeroDivisionError), too many layers
# or ids (IndexError), an option of an else that sets nothing (NameError), shapes (RuntimeError,
# AssertionError), a file that is named and not there (OSError), the rest ValueError. Where warnings
# are errors, torch also raises those of tensors of size zero.
MODEL_ERRORS: tuple[type[Exception], ...] = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    NameError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
    Warning,
)
_SIGNS = (
    "out of memory",
    "can't allocate memory",
    "not enough memory",
    "_status_alloc_failed",  # of cuBLAS and cuDNN
)


class HookError(BaseException):
    """Carries an exception of our hook through the code of a library."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


def hook(function: Callable[P, R]) -> Callable[P, R]:
    """Return a hook whose exceptions pass ``running`` unchanged."""

    @wraps(function)
    def guarded(*arguments: P.args, **named: P.kwargs) -> R:
        try:
            return function(*arguments, **named)
        except Exception as error:
            raise HookError(error) from error

    return guarded


@contextmanager
def running(module: object, *errors: type[Exception]) -> Iterator[None]:
    """Map what a module raises in a forward pass.

    The block holds that pass and nothing else, apart from hooks (``hook``). Exhausted memory
    passes: a smaller batch may need less.

    Args:
        module: the module.
        errors: what it may raise, by default ``MODEL_ERRORS``.

    Raises:
        ModelError: it cannot take the input.
    """
    errors = errors or MODEL_ERRORS
    try:
        yield
    except HookError as failure:
        raise failure.error from None
    except RepalignError:
        raise
    except errors as error:
        if isinstance(error, RuntimeError) and is_out_of_memory(error):
            raise
        name = type(module).__name__
        raise ModelError(f"{name} cannot take this input: {first_line(error)}") from error


@contextmanager
def panics_as_errors() -> Iterator[None]:
    """Raise a panic of a Rust library, not an Exception, as a RuntimeError."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise RuntimeError(first_line(error)) from error


def is_out_of_memory(error: RuntimeError) -> bool:
    """Return whether an error of torch means that memory is exhausted."""
    return any(sign in str(error).lower() for sign in _SIGNS)
