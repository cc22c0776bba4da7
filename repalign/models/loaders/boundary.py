"""The one boundary around other people's code: whatever comes out of it is one line."""

from collections.abc import Iterator
from contextlib import contextmanager

from repalign.exceptions import ModelError, RepalignError, first_line

_SIGNS = (
    "out of memory",
    "can't allocate memory",
    "not enough memory",
    "_status_alloc_failed",  # of cuBLAS and cuDNN
)


@contextmanager
def third_party(what: str, *, memory_passes: bool = False) -> Iterator[None]:
    """Turn anything that a library raises into a ModelError of one line that begins with ``what``.

    A checkpoint with wrong values comes out of the libraries as any kind of exception, panics of
    their Rust parts, which are no Exception, among them. Our own errors and an interrupt pass;
    with ``memory_passes`` an exhausted memory too, which the caller meets by a smaller batch.
    """
    try:
        yield
    except (RepalignError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:
        if memory_passes and isinstance(error, RuntimeError) and is_out_of_memory(error):
            raise
        raise ModelError(f"{what}: {first_line(error)}") from error


def is_out_of_memory(error: RuntimeError) -> bool:
    """Whether an error of torch means that memory did not suffice."""
    return any(sign in str(error).lower() for sign in _SIGNS)
