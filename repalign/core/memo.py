"""What was computed of content, found again by content: the same to the last bit."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
from xxhash import xxh3_128_digest

Arrays = tuple[np.ndarray, ...]


class ContentMemo:
    """Arrays by the content they were computed of; the longest unused are forgotten first.

    One space meets many partners, shuffles and refits: what is known of it alone is computed
    once. Results may not be changed.
    """

    def __init__(self, memory_bytes: int) -> None:
        self.memory_bytes = memory_bytes
        self._found: OrderedDict[Any, Arrays] = OrderedDict()
        self._n_bytes = 0
        self._lock = threading.Lock()

    def of(self, values: np.ndarray, how: Any, compute: Callable[[], Arrays]) -> Arrays:
        """Return what is computed of values in the way that ``how`` names."""
        plain = np.ascontiguousarray(values)
        key = (xxh3_128_digest(plain.data), plain.shape, plain.dtype.str, how)
        with self._lock:
            known = self._found.get(key)
            if known is not None:
                self._found.move_to_end(key)
                return known
        found = compute()
        for each in found:
            each.flags.writeable = False
        self._keep(key, found)
        return found

    def _keep(self, key: Any, found: Arrays) -> None:
        size = sum(each.nbytes for each in found)
        with self._lock:
            if key in self._found or size > self.memory_bytes:
                return
            self._found[key] = found
            self._n_bytes += size
            while self._n_bytes > self.memory_bytes:
                _, oldest = self._found.popitem(last=False)
                self._n_bytes -= sum(each.nbytes for each in oldest)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._found.clear()
            self._n_bytes = 0
