"""Columns brought to one scale; a constant column can deviate by a few ulps of its mean."""

import numpy as np
from jaxtyping import Float


def z_scored(values: Float[np.ndarray, "n l"], by: slice = slice(None)) -> Float[np.ndarray, "n l"]:
    """Centre every column and divide it by its population deviation over the rows ``by``.

    A column that is constant there becomes 0.
    """
    known = values[by]
    deviation = known.std(axis=0)
    is_constant = deviation <= 10 * np.finfo(np.float64).eps * np.abs(known).max(axis=0)
    return np.where(is_constant, 0.0, values - known.mean(axis=0)) / np.where(
        is_constant, 1.0, deviation
    )


def unit_columns(values: Float[np.ndarray, "n l"]) -> Float[np.ndarray, "n l"]:
    """Centre every column and divide it by its norm; a constant column becomes 0."""
    centred = values - values.mean(axis=0)
    norms = np.linalg.norm(centred, axis=0)
    scale = np.abs(values).max(axis=0, initial=0.0) * np.sqrt(values.shape[0])
    is_constant = norms <= 10 * np.finfo(np.float64).eps * scale
    return np.where(is_constant, 0.0, centred / np.where(is_constant, 1.0, norms))
