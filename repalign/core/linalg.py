"""Decompositions that are remembered, numerical rank, whitening, and the signed assignment."""

import functools
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Integer
from xxhash import xxh3_128_digest

from repalign.core.moments import DOUBLE_EPSILON
from repalign.exceptions import InputError

Arrays = tuple[np.ndarray, ...]


class ContentMemo:
    """Arrays by the content they were computed of; the longest unused are forgotten first.

    One space meets many partners, shuffles and refits: what is known of it alone is computed
    once. Results may not be changed.
    """

    def __init__(self, memory_bytes: int) -> None:
        self.memory_bytes = memory_bytes
        self._known: OrderedDict[Any, Arrays] = OrderedDict()
        self._n_bytes = 0
        self._lock = threading.Lock()

    def of(self, values: np.ndarray, how: Any, compute: Callable[[], Arrays]) -> Arrays:
        """Return what is computed of values in the way that ``how`` names."""
        plain = np.ascontiguousarray(values)
        key = (xxh3_128_digest(plain.data), plain.shape, plain.dtype.str, how)
        with self._lock:
            known = self._known.get(key)
            if known is not None:
                self._known.move_to_end(key)
                return known
        results = compute()
        for array in results:
            array.flags.writeable = False
        size = sum(array.nbytes for array in results)
        with self._lock:
            if key not in self._known and size <= self.memory_bytes:
                self._known[key] = results
                self._n_bytes += size
            while self._n_bytes > self.memory_bytes:
                _, oldest = self._known.popitem(last=False)
                self._n_bytes -= sum(array.nbytes for array in oldest)
        return results

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._known.clear()
            self._n_bytes = 0


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


@dataclass(frozen=True, eq=False)
class Whitening:
    """Principal directions of the numerical rank, scaled to unit variance.

    ``(x − mean) @ matrix.T`` has identity covariance on the rows that were fitted, and
    ``z @ inverse.T + mean`` brings it back. It is truncated, never a pseudo-inverse of a
    near-singular matrix: that would lose the data.

    Attributes:
        mean: Length d.
        matrix: k×d, rows sorted by falling variance.
        inverse: d×k.
        variances: The k kept eigenvalues of the covariance, falling.
        n_constant: Columns of zero variance.
        cut: Eigenvalues at most this large were taken for rounding noise.
    """

    mean: Float[np.ndarray, " d"]
    matrix: Float[np.ndarray, "k d"]
    inverse: Float[np.ndarray, "d k"]
    variances: Float[np.ndarray, " k"]
    n_constant: int
    cut: float

    @property
    def rank(self) -> int:
        """Number k of directions kept."""
        return int(self.matrix.shape[0])


def storage_cut(
    matrix: Float[np.ndarray, "d d"],
    mean: Float[np.ndarray, " d"],
    weight: float,
    epsilon: float,
) -> float:
    """Return the eigenvalue below which a direction may be rounding of the stored values.

    Rounding moves a row x by at most ε/2·‖x‖, so that no direction can gain more variance than
    ε²/4 times the mean of ‖x‖². The cut is ε² times the total variance (four times that bound),
    or ε² times the largest squared column mean where an offset dominates. ``matrix`` is a
    covariance (``weight`` 1) or a scatter sum (``weight`` n).
    """
    return epsilon**2 * max(float(np.trace(matrix)), weight * float((mean**2).max(initial=0.0)))


def arithmetic_cut(dim: int, largest: float) -> float:
    """Return the eigenvalue below which double precision resolves nothing.

    The eigenvalues of a d×d matrix are known to about d·2⁻⁵² times the largest; four times that.
    """
    return 4 * dim * DOUBLE_EPSILON * largest


@dataclass(frozen=True, eq=False)
class PrincipalDirections:
    """Eigenvectors of a covariance or scatter sum above rounding noise, by falling eigenvalue.

    Attributes:
        vectors: d×k, orthonormal columns.
        values: The k eigenvalues.
        cut: Eigenvalues at most this large were taken for rounding noise, of storage or of
            arithmetic.
    """

    vectors: Float[np.ndarray, "d k"]
    values: Float[np.ndarray, " k"]
    cut: float


def principal_directions(
    matrix: Float[np.ndarray, "d d"],
    *,
    mean: Float[np.ndarray, " d"],
    weight: float = 1.0,
    epsilon: float = DOUBLE_EPSILON,
    max_rank: int | None = None,
) -> PrincipalDirections:
    """Return the directions of the numerical rank, at most ``max_rank`` of them.

    The arguments are those of ``storage_cut``.
    """
    values, vectors = eigh(matrix)
    stored = storage_cut(matrix, mean, weight, epsilon)
    cut = max(stored, arithmetic_cut(len(matrix), float(values[-1])))
    keep = np.flatnonzero(values > cut)[::-1][:max_rank]
    return PrincipalDirections(vectors[:, keep], values[keep], cut)


def fit_whitening(
    mean: Float[np.ndarray, " d"],
    covariance: Float[np.ndarray, "d d"],
    *,
    epsilon: float = DOUBLE_EPSILON,
    n_rows: int | None = None,
    max_rank: int | None = None,
) -> Whitening:
    """Return the whitening of a covariance, truncated to its numerical rank.

    Dead columns, the hyperplane of a LayerNorm output (rank d − 1) and fewer rows than columns
    (rank at most n − 1, given ``n_rows``) all end as truncated directions. ``epsilon`` is the
    spacing of the type in which the rows are stored. The sign of each direction is fixed: its
    largest entry is positive.

    Raises:
        InputError: All rows are equal.
    """
    limits = [limit for limit in (max_rank, None if n_rows is None else n_rows - 1) if limit]
    principal = principal_directions(
        covariance, mean=mean, epsilon=epsilon, max_rank=min(limits, default=None)
    )
    vectors, variances, rank = principal.vectors, principal.values, len(principal.values)
    if rank < 1:
        raise InputError("the rows do not vary, so they cannot be whitened; check the input")
    largest = np.abs(vectors).argmax(axis=0)
    vectors = vectors * np.where(vectors[largest, np.arange(rank)] < 0, -1.0, 1.0)
    spread = np.sqrt(variances)
    return Whitening(
        mean=mean,
        matrix=(vectors / spread).T,
        inverse=vectors * spread,
        variances=variances,
        n_constant=int(np.count_nonzero(np.diag(covariance) <= 0)),
        cut=principal.cut,
    )


def random_rotation(size: int, rng: np.random.Generator) -> Float[np.ndarray, "k k"]:
    """Return an orthogonal matrix, uniformly distributed."""
    q, r = np.linalg.qr(rng.standard_normal((size, size)))
    return q * np.sign(np.diag(r))


# Sums of similarities that differ by less, relatively, are taken for equal.
TIE = 2.0**-40


@dataclass(frozen=True, eq=False)
class SignedMatching:
    """Pairs of a source and a target column, each with a sign.

    Attributes:
        source: Matched source columns, in the order of ``target``.
        target: Matched target columns, increasing.
        sign: −1 or +1 for each pair.
        value: The magnitude that was summed by the assignment, for each pair.
    """

    source: Integer[np.ndarray, " k"]
    target: Integer[np.ndarray, " k"]
    sign: Float[np.ndarray, " k"]
    value: Float[np.ndarray, " k"]


def match_signed(similarity: Float[np.ndarray, "p q"]) -> SignedMatching:
    """Return the one-to-one matching of rows to columns that maximises Σ|similarity|.

    Where the widths differ, min(p, q) pairs are made and the rest is left unmatched. A pair of
    similarity 0 has sign +1, so that the matching stays a signed permutation. A rule chooses
    among matchings that are equally good but for the rounding of sums: what has similarity 0
    is paired in the order in which it stands, and the rest keeps its number where it can.
    """
    from scipy.optimize import linear_sum_assignment  # a third of the start of a small comparison

    size = np.abs(similarity)
    source, target = linear_sum_assignment(size * _preference(*size.shape), maximize=True)
    order = np.argsort(target, kind="stable")
    source, target = source[order], target[order]
    none = size[source, target] == 0
    source[none] = np.sort(source[none])
    chosen = similarity[source, target]
    return SignedMatching(
        source=source,
        target=target,
        sign=np.where(chosen < 0, -1.0, 1.0),
        value=np.abs(chosen),
    )


@functools.lru_cache(maxsize=1)
def _preference(p: int, q: int) -> Float[np.ndarray, "p q"]:
    """Return factors of nearly one, more than rounding apart, largest for pairs of one number.

    The others are without a pattern, since a pattern would leave several matchings as good.
    """
    rows, columns = np.ogrid[1.0 : p + 1, 1.0 : q + 1]
    wish = (rows * columns**2 * np.sqrt(2)) % 1 / 2
    wish[np.arange(min(p, q)), np.arange(min(p, q))] = 1
    return 1 + TIE * wish
