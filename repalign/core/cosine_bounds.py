"""Lower bounds of the cosines between many rows, from products in low precision.

A unit row u_i is rounded to q_i in bfloat16 (or single precision) and the length of what was
rounded away, e_i = ‖u_i − q_i‖, is measured. Then for any pair

    ⟨u_i, u_j⟩ = ⟨q_i, q_j⟩ + ⟨u_i − q_i, u_j⟩ + ⟨q_i, u_j − q_j⟩ ≥ ⟨q_i, q_j⟩ − e_i − (1 + e_i) e_j

by Cauchy and Schwarz, as ‖u_j‖ = 1 and ‖q_i‖ ≤ 1 + e_i. The product itself is summed in single
precision (error at most d·2⁻²³ for vectors of length about one, doubled here) and its result
rounded to the working type (relative error at most 2⁻⁸ for bfloat16).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Integer

from repalign.aliases import Rows
from repalign.core.device import DeviceArray, matmul_kernels, row_norms
from repalign.core.rows import take_in_order

# Rounded at once: a few copies in double precision, which a small memory cap must hold.
_BLOCK_VALUES = 2**18


@dataclass(frozen=True, eq=False)
class UnitRows:
    """Directions of centred rows, rounded, with the measured error of each.

    Attributes:
        rounded: The unit rows in the working type, m×d, on the device.
        error: Upper bound of the distance of each from the unrounded one.
        result_rounding: Relative error of the result of a product.
    """

    rounded: DeviceArray
    error: Float[np.ndarray, " m"]
    result_rounding: float

    @property
    def dim(self) -> int:
        """Number of columns."""
        return int(self.rounded.shape[1])

    def lowest_cosines(self, first: slice, second: slice) -> Float[np.ndarray, " a"]:
        """Return, per row of ``first``, a lower bound of its cosines with ``second``, at most 0."""
        if isinstance(self.rounded, np.ndarray):
            cosine = np.minimum((self.rounded[first] @ self.rounded[second].T).min(axis=1), 0)
            cosine = cosine.astype(np.float64)
        else:
            cosine = _lowest_of(self.rounded[first], self.rounded[second])
        own, other = self.error[first], float(self.error[second].max())
        margin = own + (1 + own) * other + 2 * self.dim * 2.0**-23
        return cosine - np.abs(cosine) * self.result_rounding - margin


def _lowest_of(first: DeviceArray, second: DeviceArray) -> Float[np.ndarray, " a"]:
    """Return the lowest product of each of the first rows with the second, at most 0, by torch."""
    import torch

    negated = torch.neg(first) @ second.T
    # Positive floating numbers are ordered as the integers of the same bits, and negative
    # ones are negative integers: the maximum over integers, which is eight times as fast,
    # is the floating maximum wherever that is positive. Elsewhere all cosines are positive.
    integers = torch.int16 if negated.dtype == torch.bfloat16 else torch.int32
    bits = negated.view(integers).amax(dim=1)
    highest = torch.where(bits > 0, bits, 0).view(negated.dtype)
    return -highest.double().cpu().numpy()


def build_unit_rows(
    rows: Rows,
    chosen: Integer[np.ndarray, " m"],
    centre: Float[np.ndarray, " d"],
    radii: Float[np.ndarray, " n"],
    device: str | None,
) -> UnitRows:
    """Return the directions of the chosen rows, seen from the centre, in the order given.

    They are rounded to single precision by numpy without a device, else by torch to what that
    device multiplies fastest.
    """
    target, dtype, rounding = _room_for((len(chosen), rows.shape[1]), device)
    error = np.empty(len(chosen))
    position = np.argsort(chosen)
    block_rows = max(_BLOCK_VALUES // rows.shape[1], 1)
    for start in range(0, len(chosen), block_rows):
        place = position[start : start + block_rows]
        values = take_in_order(rows, chosen[place]).astype(np.float64) - centre
        radius = radii[chosen[place]]
        unit = values / np.where(radius > 0, radius, 1.0)[:, None]
        if device is None:
            small = unit.astype(np.float32)
            target[place] = small
            error[place] = row_norms(unit - small)
        else:
            import torch

            whole = torch.from_numpy(unit).to(device)
            small = whole.to(dtype)
            target[torch.from_numpy(place).to(device)] = small
            error[place] = row_norms(whole - small)
    # Inflated for the rounding of the unit rows themselves.
    return UnitRows(rounded=target, error=error + 1e-12, result_rounding=rounding)


def _room_for(shape: tuple[int, int], device: str | None) -> tuple[DeviceArray, Any, float]:
    """Return where unit rows are put, their type, and the relative rounding of its products."""
    if device is None:
        return np.empty(shape, dtype=np.float32), np.float32, 2.0**-23
    import torch

    is_half = matmul_kernels(device).has_bfloat16
    dtype = torch.bfloat16 if is_half else torch.float32
    return torch.empty(shape, dtype=dtype, device=device), dtype, 2.0**-8 if is_half else 2.0**-23
