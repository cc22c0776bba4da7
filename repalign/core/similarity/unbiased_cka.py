"""Linear CKA without the bias that few rows give it; needs the norms of the rows."""

import numpy as np
from jaxtyping import Float

from repalign.core.moments import PairMoments
from repalign.exceptions import InputError


def unbiased_linear_cka(
    moments: PairMoments,
    radii_x: Float[np.ndarray, " n"],
    radii_y: Float[np.ndarray, " n"],
) -> float:
    """Return linear CKA from the unbiased estimator of HSIC (higher is closer).

    Song et al. (2012), for linear kernels of centred rows with k_i = ‖x_i‖², l_i = ‖y_i‖²:
    HSIC ∝ ‖S_xy‖² − n/(n−2)·Σ k_i l_i + Σk_i·Σl_i / ((n−1)(n−2)). It is about 0 for unrelated
    rows however few there are, and can be negative. ``radii_x`` and ``radii_y`` are k and l, about
    the means of the moments. 0 where one side does not vary.

    Raises:
        InputError: There are fewer than four rows, or not as many radii as rows.
    """
    n = moments.n
    if n < 4:
        raise InputError(f"unbiased CKA of {n} rows was asked for; expected at least 4 rows")
    if radii_x.shape != (n,) or radii_y.shape != (n,):
        raise InputError(
            f"{radii_x.shape[0]} and {radii_y.shape[0]} radii were given for {n} rows; "
            "expected one for each row of the moments"
        )

    def hsic(
        cross: Float[np.ndarray, "a b"], k: Float[np.ndarray, " n"], other: Float[np.ndarray, " n"]
    ) -> float:
        inner = float(np.sum(cross**2)) - n / (n - 2) * float(k @ other)
        return inner + float(k.sum() * other.sum()) / ((n - 1) * (n - 2))

    own = hsic(moments.sxx, radii_x, radii_x) * hsic(moments.syy, radii_y, radii_y)
    return hsic(moments.sxy, radii_x, radii_y) / float(np.sqrt(own)) if own > 0 else 0.0
