"""Eigenvalues of symmetric matrices, remembered: one space is decomposed for many partners."""

import numpy as np
from jaxtyping import Float

from repalign.core.memo import ContentMemo

MEMO = ContentMemo(2**27)


def eigh(
    matrix: Float[np.ndarray, "d d"],
) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, "d d"]]:
    """Return eigenvalues, rising, and eigenvectors; neither may be changed."""
    values, vectors = MEMO.of(matrix, "eigh", lambda: tuple(np.linalg.eigh(matrix)))
    return values, vectors


def eigvalsh(matrix: Float[np.ndarray, "d d"]) -> Float[np.ndarray, " d"]:
    """Return the eigenvalues alone, rising; they may not be changed."""
    (values,) = MEMO.of(matrix, "eigvalsh", lambda: (np.linalg.eigvalsh(matrix),))
    return values
