"""Running torch on one thread for a while."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use one thread inside, and as many as before outside.

    Models of this size gain nothing from a second thread, lose much where other programs keep
    the cores busy, and sum in an order that changes with the number of threads.
    """
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
