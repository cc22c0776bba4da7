"""Mutual information between latents and factors: nearest neighbours (Ross 2014) and plug-in.

All values are in nats. A factor is a column of class codes ``0 .. K-1``.
"""

from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy.special import digamma

from repalign.exceptions import InputError

# Rows × latents worked on at once: the dozen passes over a block then stay in the cache.
BLOCK_ELEMENTS = 2**17
JITTER = 1e-10


def encode_classes(column: Any) -> Int[np.ndarray, " n"]:
    """Return the class codes ``0 .. K-1`` of one column, in the order of its sorted values."""
    _, codes = np.unique(np.asarray(column), return_inverse=True)
    return np.asarray(codes, dtype=np.int64).reshape(-1)


def entropy(codes: Int[np.ndarray, " n"]) -> float:
    """Plug-in entropy of class codes, in nats."""
    return _entropy_of_counts(np.bincount(codes))


def plug_in_mi(first: Int[np.ndarray, " n"], second: Int[np.ndarray, " n"]) -> float:
    """Plug-in mutual information of two columns of class codes: H(a) + H(b) − H(a, b), in nats."""
    joint = first.astype(np.int64) * (int(second.max()) + 1) + second
    _, counts = np.unique(joint, return_counts=True)
    separate = entropy(first) + entropy(second)
    mi = separate - _entropy_of_counts(counts)
    # Independent columns cancel to a few ulps; "no information" must be an exact zero.
    return mi if mi > 100 * np.finfo(np.float64).eps * separate else 0.0


def plug_in_mi_matrix(
    codes: Int[np.ndarray, "n m"], latent_codes: Int[np.ndarray, "n l"]
) -> Float[np.ndarray, "m l"]:
    """Plug-in mutual information of every factor with every discrete latent."""
    return np.array(
        [
            [plug_in_mi(codes[:, i], latent_codes[:, j]) for j in range(latent_codes.shape[1])]
            for i in range(codes.shape[1])
        ]
    )


def equal_width_bins(latents: Float[np.ndarray, "n l"], n_bins: int) -> Int[np.ndarray, "n l"]:
    """Bin codes of every latent over its own range, in bins of equal width."""
    return np.stack(
        [
            np.digitize(column, np.histogram(column, bins=n_bins)[1][:-1]).astype(np.int64) - 1
            for column in latents.T
        ],
        axis=1,
    )


def neighbour_mi_matrix(
    codes: Int[np.ndarray, "n m"],
    latents: Float[np.ndarray, "n l"],
    *,
    n_neighbors: int,
    rng: np.random.Generator,
) -> Float[np.ndarray, "m l"]:
    """Mutual information of every discrete factor with every continuous latent (Ross 2014).

    Latents are divided by their standard deviation and jittered by 1e-10, as scikit-learn does,
    so that tied values have distinct neighbours. A constant latent has no information.

    Raises InputError when ``n_neighbors`` is below 1.
    """
    if n_neighbors < 1:
        raise InputError(f"n_neighbors is {n_neighbors}; expected at least 1")
    prepared, varies = _scale_and_jitter(latents, rng)
    result = np.zeros((codes.shape[1], latents.shape[1]))
    block = max(1, BLOCK_ELEMENTS // max(1, latents.shape[0]))
    columns = np.flatnonzero(varies)
    for start in range(0, columns.size, block):
        chosen = columns[start : start + block]
        values = np.ascontiguousarray(prepared[:, chosen].T)
        order = np.argsort(values, axis=1)
        ascending = np.take_along_axis(values, order, axis=1)
        for i in range(codes.shape[1]):
            result[i, chosen] = _ross(codes[:, i], order, ascending, n_neighbors)
    return result


def _entropy_of_counts(counts: Int[np.ndarray, " k"]) -> float:
    shares = counts[counts > 0] / counts.sum()
    return float(max(0.0, -np.sum(shares * np.log(shares))))


def _scale_and_jitter(latents: np.ndarray, rng: np.random.Generator) -> tuple[Any, Any]:
    deviation = latents.std(axis=0)
    # A constant column can have a standard deviation of a few ulps of its mean.
    varies = deviation > 10 * np.finfo(np.float64).eps * np.abs(latents).max(axis=0, initial=0.0)
    scaled = latents / np.where(varies, deviation, 1.0)
    amplitude = JITTER * np.maximum(1.0, np.abs(scaled).mean(axis=0))
    return scaled + amplitude * rng.standard_normal(latents.shape), varies


def _ross(codes: Any, order: Any, ascending: Any, n_neighbors: int) -> Any:
    """Estimate for one factor; ``order`` and ``ascending`` are l × n, sorted along the rows."""
    counts = np.bincount(codes)
    if np.any(counts == 1):
        # Points that are alone in their class have no neighbour in it and are left out.
        kept = counts[codes] > 1
        if not kept.any():
            return np.zeros(order.shape[0])
        mask = kept[order]
        ascending = ascending[mask].reshape(order.shape[0], -1)
        order = order[mask].reshape(order.shape[0], -1)
        counts = np.where(counts == 1, 0, counts)
    # The smallest integer type makes the stable sort a radix sort.
    small = codes.astype(np.int16) if counts.size < 2**15 else codes
    by_class = np.argsort(small[order], axis=1, kind="stable")
    grouped = np.take_along_axis(ascending, by_class, axis=1)
    radius = np.empty_like(grouped)
    stops = np.cumsum(counts)
    for count, stop in zip(counts.tolist(), stops.tolist(), strict=True):
        if count:
            block = slice(stop - count, stop)
            radius[:, block] = _neighbour_distance(grouped[:, block], min(n_neighbors, count - 1))
    n_rows = grouped.shape[1]
    psi = digamma(np.arange(n_rows + 1))
    within = np.stack(
        [_count_within(ascending[j], grouped[j], radius[j]) for j in range(order.shape[0])]
    )
    per_class = psi[counts] - psi[np.minimum(n_neighbors, np.maximum(counts - 1, 1))]
    expected = np.sum(counts[counts > 0] * per_class[counts > 0]) / n_rows
    return np.maximum(0.0, psi[n_rows] - expected - psi[within].mean(axis=1))


def _neighbour_distance(ascending: Any, k: int) -> Any:
    """Distance of every point to its k-th neighbour, for rows sorted ascending (l × m, m > k).

    The k nearest neighbours of a point and the point itself are one of the windows of k + 1
    consecutive values that contain it: the smallest half-width wins.
    """
    n_windows = ascending.shape[1] - k
    low, high = ascending[:, :n_windows], ascending[:, k:]
    result = np.full_like(ascending, np.inf)
    for offset in range(k + 1):
        here = slice(offset, offset + n_windows)
        point = ascending[:, here]
        np.minimum(result[:, here], np.maximum(point - low, high - point), out=result[:, here])
    return result


def _count_within(ascending: Any, points: Any, radius: Any) -> Any:
    """Count the values strictly closer to each point than its radius; the point itself counts."""
    last = ascending.size - 1
    above = np.searchsorted(ascending, points + radius, side="left")
    below = np.searchsorted(ascending, points - radius, side="right")
    # points ± radius is rounded, and the neighbour that set the radius lies exactly there:
    # decide by the distance itself.
    above -= ascending[above - 1] - points >= radius
    above += (above <= last) & (ascending[np.minimum(above, last)] - points < radius)
    below += (below <= last) & (points - ascending[np.minimum(below, last)] >= radius)
    below -= (below > 0) & (points - ascending[below - 1] < radius)
    return np.maximum(above - below, 1)
