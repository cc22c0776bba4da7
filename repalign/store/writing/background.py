"""Work done behind the caller's back, in order, and never far behind."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

_MAX_PENDING = 2


class BackgroundThread:
    """One thread that does what it is handed, in order, with at most two tasks waiting.

    What a task raises is raised by a later call here, and no task is done after one that failed.

    Args:
        name: name of the thread.
    """

    def __init__(self, name: str) -> None:
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self._pending: deque[Future[None]] = deque()

    def put(self, task: Callable[[], None], otherwise: Callable[[], None] | None = None) -> None:
        """Hand over a task; waits while two others are on their way.

        Args:
            task: what to do.
            otherwise: done in its place when the task before it failed.
        """
        while len(self._pending) >= _MAX_PENDING:
            self._pending.popleft().result()
        before = self._pending[-1] if self._pending else None
        self._pending.append(self._pool.submit(_run_after, before, task, otherwise))

    def wait(self) -> None:
        """Wait until everything is done."""
        while self._pending:
            self._pending.popleft().result()

    def close(self) -> None:
        """Wait until everything is done, and stop."""
        try:
            self.wait()
        finally:
            self._pool.shutdown(wait=True)


def _run_after(
    before: Future[None] | None,
    task: Callable[[], None],
    otherwise: Callable[[], None] | None,
) -> None:
    if before is not None and before.exception() is not None:
        if otherwise is not None:
            otherwise()
        before.result()
    task()
