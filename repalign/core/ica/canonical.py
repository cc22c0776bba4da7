"""The sign and the order of components, which no contrast settles: fixed by what they hold.

A search ends at its components in any order and with any signs; both hang on the start, and
where the search is long on the rounding of sums, which differs by processor and by the number
of threads. Neither touches a map between representations, but both are seen in saved
components.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

# Below one standard error the sign of a mean says nothing.
_SIGN_KNOWN = 1.0


@dataclass(frozen=True, eq=False)
class Canonical:
    """How to bring components into their canonical form.

    Attributes:
        order: Component number to take for each place: the least Gaussian first.
        sign: Sign of each, by its old number, after which E y³ > 0.
        is_sign_arbitrary: By place, whether E y³ is within its standard error of zero, so that
            other rows of the same law might turn the component round.
    """

    order: Int[np.ndarray, " k"]
    sign: Float[np.ndarray, " k"]
    is_sign_arbitrary: Bool[np.ndarray, " k"]

    def apply(self, vectors: Float[np.ndarray, "k d"]) -> Float[np.ndarray, "k d"]:
        """Return one vector a component in canonical order and sign."""
        return (self.sign[:, None] * vectors)[self.order]


def canonical_form(
    non_gaussianity: Float[np.ndarray, " k"],
    third_moment: Float[np.ndarray, " k"],
    third_moment_error: Float[np.ndarray, " k"],
) -> Canonical:
    """Return the canonical form from the components' non-Gaussianity and E y³ with its error."""
    order = np.argsort(-non_gaussianity, kind="stable")
    is_arbitrary = np.abs(third_moment) < _SIGN_KNOWN * third_moment_error
    return Canonical(order, np.where(third_moment < 0, -1.0, 1.0), is_arbitrary[order])
