"""Evidence of paired arrays, as measures take it."""

import numpy as np

from repalign.core.measures import Evidence, FittingMoments, measure_called
from repalign.core.neighbours import hold
from tests.core.paired_data import moments_of


def evidence(x: np.ndarray, y: np.ndarray) -> Evidence:
    return Evidence(FittingMoments.of(moments_of(x, y)), rows=hold(x, y))


def value(name: str, x: np.ndarray, y: np.ndarray) -> float:
    """A measure in-sample."""
    return measure_called(name).value(evidence(x, y))


def value_on(name: str, fit: int, x: np.ndarray, y: np.ndarray) -> float:
    """A measure that is fitted on the first rows and judged on the others."""
    given = Evidence(
        FittingMoments.of(moments_of(x[:fit], y[:fit])),
        moments_of(x[fit:], y[fit:]),
        hold(x[fit:], y[fit:]),
        hold(x[:fit], y[:fit]),
    )
    return measure_called(name).value(given)
