"""Every map that follows from the moments, by name."""

from collections.abc import Callable
from functools import partial

from repalign.core.maps.affine import AffineMap
from repalign.core.maps.baselines import fit_identity, fit_mean
from repalign.core.maps.linear import fit_linear
from repalign.core.maps.permutation import fit_permutation
from repalign.core.maps.rigid import fit_rigid
from repalign.core.moments import PairMoments
from repalign.exceptions import InputError

FITTERS: dict[str, Callable[[PairMoments], AffineMap]] = {
    "mean": fit_mean,
    "identity": fit_identity,
    "permutation": fit_permutation,
    "permutation+scale": partial(fit_permutation, scale=True),
    "rigid": fit_rigid,
    "rigid-noscale": partial(fit_rigid, scale=False),
    "linear": fit_linear,
}
"""Kind of map → function from moments to the fitted map."""


def fit_map(kind: str, moments: PairMoments) -> AffineMap:
    """Fit the map of the given kind.

    Raises:
        InputError: The kind is unknown, there are no rows, or the widths do not suit the kind.
    """
    if kind not in FITTERS:
        raise InputError(f"map {kind!r} is unknown; expected one of: {', '.join(FITTERS)}")
    if moments.n < 1:
        raise InputError("there are no rows to fit a map on; expected at least one")
    return FITTERS[kind](moments)
