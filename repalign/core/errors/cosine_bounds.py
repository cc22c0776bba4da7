"""Lower bounds of the cosines between many rows, from products in low precision.

A unit row u_i is rounded to q_i in bfloat16 (or single precision) and the length of what was
rounded away, e_i = ‖u_i − q_i‖, is measured. Then for any pair

    ⟨u_i, u_j⟩ = ⟨q_i, q_j⟩ + ⟨u_i − q_i, u_j⟩ + ⟨q_i, u_j − q_j⟩ ≥ ⟨q_i, q_j⟩ − e_i − (1 + e_i) e_j

by Cauchy and Schwarz, as ‖u_j‖ = 1 and ‖q_i‖ ≤ 1 + e_i. The product itself is summed in single
precision (error at most d·2⁻²³ for vectors of length about one, doubled here) and its result
rounded to the working type (relative error at most 2⁻⁸ for bfloat16).
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Integer

from repalign.aliases import Rows
from repalign.core.compute import matmul_kernels
from repalign.core.rows import take_in_order

_BLOCK_ROWS = 8192
_INTEGER_OF = {torch.bfloat16: torch.int16, torch.float32: torch.int32}


@dataclass(frozen=True, eq=False)
class UnitRows:
    """Directions of centred rows, rounded, with the measured error of each.

    Attributes:
        rounded: The unit rows in the working type, m×d, on the device.
        error: Upper bound of the distance of each from the unrounded one.
    """

    rounded: torch.Tensor
    error: Float[np.ndarray, " m"]

    @property
    def dim(self) -> int:
        """Number of columns."""
        return int(self.rounded.shape[1])

    def lowest_cosines(self, first: slice, second: slice) -> Float[np.ndarray, " a"]:
        """Return, per row of ``first``, a lower bound of its cosines with ``second``, at most 0."""
        negated = torch.neg(self.rounded[first]) @ self.rounded[second].T
        # Positive floating numbers are ordered as the integers of the same bits, and negative
        # ones are negative integers: the maximum over integers, which is eight times as fast,
        # is the floating maximum wherever that is positive. Elsewhere all cosines are positive.
        bits = negated.view(_INTEGER_OF[negated.dtype]).amax(dim=1)
        highest = torch.where(bits > 0, bits, 0).view(negated.dtype)
        cosine = -highest.double().cpu().numpy()
        own, other = self.error[first], float(self.error[second].max())
        result_rounding = 2.0**-8 if self.rounded.dtype == torch.bfloat16 else 2.0**-23
        margin = own + (1 + own) * other + 2 * self.dim * 2.0**-23
        return cosine - np.abs(cosine) * result_rounding - margin


def build_unit_rows(
    rows: Rows,
    chosen: Integer[np.ndarray, " m"],
    centre: Float[np.ndarray, " d"],
    radii: Float[np.ndarray, " n"],
    device: str,
) -> UnitRows:
    """Return the directions of the chosen rows, seen from the centre, in the order given."""
    dtype = torch.bfloat16 if matmul_kernels(device).has_bfloat16 else torch.float32
    rounded = torch.empty((len(chosen), rows.shape[1]), dtype=dtype, device=device)
    error = np.empty(len(chosen))
    position = np.argsort(chosen)
    for start in range(0, len(chosen), _BLOCK_ROWS):
        place = position[start : start + _BLOCK_ROWS]
        values = take_in_order(rows, chosen[place]).astype(np.float64) - centre
        radius = radii[chosen[place]]
        unit = torch.from_numpy(values / np.where(radius > 0, radius, 1.0)[:, None]).to(device)
        small = unit.to(dtype)
        rounded[torch.from_numpy(place).to(device)] = small
        # Inflated for the rounding of the unit row itself.
        error[place] = torch.linalg.vector_norm(unit - small, dim=1).cpu().numpy() + 1e-12
    return UnitRows(rounded=rounded, error=error)
