"""Work that goes on in the background, one piece after the other."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

_MAX_WAITING = 2


class InOrder:
    """Runs what it is given on one thread, in order, at most two pieces behind.

    Args:
        name: of the thread.
    """

    def __init__(self, name: str) -> None:
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self._waiting: deque[Future[None]] = deque()

    def make_room(self) -> None:
        """Wait until another piece may be put; raises what an earlier one raised."""
        while len(self._waiting) >= _MAX_WAITING:
            self._waiting.popleft().result()

    def put(self, work: Callable[[], None]) -> None:
        """Hand over a piece of work, when there is room; raises what an earlier one raised."""
        self.make_room()
        self._waiting.append(self._pool.submit(work))

    def wait(self) -> None:
        """Wait until everything is done; raises what the first that failed raised."""
        while self._waiting:
            self._waiting.popleft().result()

    def close(self) -> None:
        """Wait until everything is done and stop; raises as ``wait`` does."""
        try:
            self.wait()
        finally:
            self._pool.shutdown(wait=True)
