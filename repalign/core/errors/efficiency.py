"""ICA efficiency: how much of what a supervised rigid map gains does unsupervised ICA gain?"""

import numpy as np
from jaxtyping import Float

# Below this share of the permutation error the gain of the rigid map is no gain to divide by.
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
