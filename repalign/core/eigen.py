"""Eigenvalues of symmetric matrices, remembered: one space is decomposed for many partners.

A space among many meets the same covariance in every pair, every shuffle and every refit. What
is remembered is found by content, so that it is the same to the last bit as computing it again.
"""

import threading
from collections import OrderedDict

import numpy as np
from jaxtyping import Float
from xxhash import xxh3_128_digest

# Results of more than this are forgotten, the longest unused first.
MEMORY_BYTES = 2**27

Decomposition = tuple[Float[np.ndarray, " d"], Float[np.ndarray, "d d"] | None]


class _Memo:
    """Decompositions by the content of their matrices."""

    def __init__(self) -> None:
        self._found: OrderedDict[tuple[bytes, bool], Decomposition] = OrderedDict()
        self._n_bytes = 0
        self._lock = threading.Lock()

    def get(self, key: tuple[bytes, bool]) -> Decomposition | None:
        with self._lock:
            if key not in self._found:
                return None
            self._found.move_to_end(key)
            return self._found[key]

    def put(self, key: tuple[bytes, bool], found: Decomposition) -> None:
        with self._lock:
            if key in self._found or _size(found) > MEMORY_BYTES:
                return
            self._found[key] = found
            self._n_bytes += _size(found)
            while self._n_bytes > MEMORY_BYTES:
                self._n_bytes -= _size(self._found.popitem(last=False)[1])

    def clear(self) -> None:
        with self._lock:
            self._found.clear()
            self._n_bytes = 0


def _size(found: Decomposition) -> int:
    return sum(0 if each is None else each.nbytes for each in found)


MEMO = _Memo()


def eigh(
    matrix: Float[np.ndarray, "d d"],
) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, "d d"]]:
    """Return eigenvalues, rising, and eigenvectors; neither may be changed."""
    values, vectors = _decomposed(matrix, with_vectors=True)
    assert vectors is not None
    return values, vectors


def eigvalsh(matrix: Float[np.ndarray, "d d"]) -> Float[np.ndarray, " d"]:
    """Return the eigenvalues alone, rising; they may not be changed."""
    return _decomposed(matrix, with_vectors=False)[0]


def _decomposed(matrix: Float[np.ndarray, "d d"], *, with_vectors: bool) -> Decomposition:
    plain = np.ascontiguousarray(matrix)
    key = (xxh3_128_digest(plain.data) + repr(plain.shape).encode(), with_vectors)
    known = MEMO.get(key)
    if known is not None:
        return known
    found: Decomposition
    found = np.linalg.eigh(plain) if with_vectors else (np.linalg.eigvalsh(plain), None)
    found = (found[0], found[1])
    for each in found:
        if each is not None:
            each.flags.writeable = False
    MEMO.put(key, found)
    return found
