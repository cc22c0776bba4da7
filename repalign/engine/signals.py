"""Signals that wait: for the few steps that must not be left half done."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any

ENDING = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def signals_wait() -> Iterator[None]:
    """Hear Ctrl-C and SIGTERM only after the block, and then as if they had just come.

    Handlers run in the main thread alone, between any two of its steps: a pool of processes whose
    start they break off can be neither used nor ended. In other threads there is nothing to do.

    Example:
        >>> before = signal.signal(signal.SIGINT, signal.default_int_handler)
        >>> try:
        ...     with signals_wait():
        ...         signal.raise_signal(signal.SIGINT)
        ...         print("done")
        ... except KeyboardInterrupt:
        ...     print("interrupted")
        done
        interrupted
        >>> signal.signal(signal.SIGINT, before) is signal.default_int_handler
        True
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard: list[int] = []

    def hear(number: int, _: Any) -> None:
        heard.append(number)

    with contextlib.ExitStack() as restored:  # all of them, even where one is heard on the way
        for number in ENDING:
            before = signal.getsignal(number)
            if before is None or before == signal.SIG_IGN:  # not Python's, or ignored
                continue
            restored.callback(signal.signal, number, before)
            signal.signal(number, hear)
        yield
    for each in heard:
        signal.raise_signal(each)
