"""How far predicted rows are from the target, and the efficiency that follows from such errors.

One norm per row and map, in one pass over the rows.
"""

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float

from repalign.aliases import Rows
from repalign.core.affine import AffineMap
from repalign.core.device import numbers_on, on_device, one_pool, row_norms
from repalign.core.rows import DEFAULT_MEMORY, block_rows_for, check_finite_block, check_paired
from repalign.exceptions import InputError


def row_errors(
    x: Rows,
    y: Rows,
    maps: Sequence[AffineMap],
    *,
    memory_bytes: int = DEFAULT_MEMORY,
    device: str = "cpu",
    on_progress: Callable[[int, int], None] | None = None,
) -> Float[np.ndarray, "maps n"]:
    """Return ‖m(x_i) − y_i‖₂ for every map m and every row i, reading all rows once.

    The dense maps are stacked into one product; maps with at most one entry per column
    (permutations, the mean) are gathered instead. Double precision throughout.

    Raises:
        InputError: The rows do not pair, a value is not finite, or a map has other widths.
    """
    n_rows = check_paired(x, y)
    p, q = x.shape[1], y.shape[1]
    for fitted in maps:
        if (fitted.source_dim, fitted.target_dim) != (p, q):
            raise InputError(
                f"a {fitted.kind} map takes {fitted.source_dim} columns to {fitted.target_dim}; "
                f"these rows need {p} to {q}"
            )
    stack = _Stack(maps, device)
    block_rows = block_rows_for(
        memory_bytes,
        row_bytes=8 * (2 * p + 3 * q + q * stack.n_dense),
        reserved_bytes=8 * len(maps) * (n_rows + p * q),
    )
    errors = np.empty((len(maps), n_rows))
    with one_pool(device):
        for start in range(0, n_rows, block_rows):
            stop = min(start + block_rows, n_rows)
            source, target = x.read(start, stop), y.read(start, stop)
            check_finite_block(source, first_row=start, name="the source")
            check_finite_block(target, first_row=start, name="the target")
            errors[:, start:stop] = stack.norms(source, target)
            if on_progress is not None:
                on_progress(stop, n_rows)
    return errors


class _Stack:
    """Maps on the device, the dense ones side by side."""

    def __init__(self, maps: Sequence[AffineMap], device: str) -> None:
        self.maps = maps
        self.device = device
        self.dense = [i for i, fitted in enumerate(maps) if fitted.entries is None]
        self.n_dense = len(self.dense)
        self.matrix = (
            on_device(np.hstack([maps[i].matrix for i in self.dense]), device)
            if self.dense
            else None
        )

    def norms(self, source: np.ndarray, target: np.ndarray) -> np.ndarray:
        x, y = on_device(source, self.device), on_device(target, self.device)
        q = y.shape[1]
        result = np.empty((len(self.maps), len(x)))
        if self.matrix is not None:
            predicted = x @ self.matrix
            for position, index in enumerate(self.dense):
                part = predicted[:, position * q : (position + 1) * q]
                part += on_device(self.maps[index].shift, self.device)
                part -= y
                result[index] = row_norms(part)
        for index, fitted in enumerate(self.maps):
            if fitted.entries is None:
                continue
            column, factor = fitted.entries
            if not factor.any():  # the mean, whatever the source
                result[index] = row_norms(on_device(fitted.shift, self.device) - y)
                continue
            if self.device == "cpu":
                part = np.take(x, column, axis=1)  # eight times as fast as by an index
            else:
                part = x[:, numbers_on(column, self.device)]
            part *= on_device(factor, self.device)
            part += on_device(fitted.shift, self.device)
            part -= y
            result[index] = row_norms(part)
        return result


# Below this share of the permutation error the gain of the rigid map is too small to divide by.
# On aligned pairs the ratio of two rounding errors otherwise reads as -530 % or 1e14 %.
SMALLEST_GAIN = 0.01
# Errors over the diameter below float32 rounding are zeros.
SMALLEST_ERROR = 1e-6


def ica_efficiency(
    permutation: Float[np.ndarray, " *shape"],
    rigid: Float[np.ndarray, " *shape"],
    ica: Float[np.ndarray, " *shape"],
) -> Float[np.ndarray, " *shape"]:
    """Return (permutation − ica) / (permutation − rigid), paper section 4.2, as a fraction.

    The errors are over the diameter. NaN where the rigid map gains less than 1 % of the
    permutation's error or less than rounding: there the efficiency is undefined.
    """
    gain = permutation - rigid
    defined = gain > np.maximum(SMALLEST_GAIN * permutation, SMALLEST_ERROR)
    return np.where(defined, (permutation - ica) / np.where(defined, gain, 1.0), np.nan)
