"""How far a map is from keeping distances: its bi-Lipschitz constant at points."""

from dataclasses import dataclass

import numpy as np

from repalign.aliases import FloatArray

N_DIRECTIONS = 10


@dataclass(frozen=True, eq=False)
class Stretch:
    """The local bi-Lipschitz constant K of a map at points; 1 where it keeps distances.

    K is the largest of ‖J v‖ and 1 / ‖J v‖ over unit vectors v, infinite where the map is flat in
    one of them.

    Attributes:
        sampled: Over random directions: a lower bound, and what A.7.1 of the paper prints.
        exact: Over all directions, from the singular values of the Jacobian.
    """

    sampled: FloatArray
    exact: FloatArray


def bilipschitz(
    jacobians: FloatArray, rng: np.random.Generator, *, n_directions: int = N_DIRECTIONS
) -> Stretch:
    """Return K at points whose Jacobians are given, ``(points, outputs, inputs)``."""
    dim = jacobians.shape[2]
    directions = rng.standard_normal((len(jacobians), dim, n_directions))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    lengths = np.linalg.norm(jacobians @ directions, axis=1)
    values = np.linalg.svd(jacobians, compute_uv=False)
    return Stretch(_largest(lengths), _largest(values))


def term(constants: FloatArray) -> FloatArray:
    """Return √(K² − 1) = √(2L + L²) for K = 1 + L, to which the theorem's error is proportional."""
    # rounding may leave K a hair below 1
    return np.asarray(np.sqrt(np.maximum(constants**2 - 1, 0.0)))


def _largest(lengths: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        return np.asarray(np.maximum(lengths.max(axis=1), 1 / lengths.min(axis=1)))
