"""Where a number can lie, and intervals that stay there."""

import math
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Range:
    """The values that a number can take: between two ends, either of which may be missing.

    Attributes:
        low: Smallest value.
        high: Largest value.
    """

    low: float = -math.inf
    high: float = math.inf

    def around(self, value: float, half_width: float) -> tuple[float, float]:
        """Return the ends of value ± half width, none of them outside.

        The interval is symmetric on a scale that knows no ends, and as wide there as its half
        width is at the value: the logarithm of the distance from a single end, of the odds of the
        distances from two. On an end, where that scale stops, what lies outside is cut off.
        """
        below, above = value - self.low, self.high - value
        if half_width == 0 or below <= 0 or above <= 0:
            return self._inside(value - half_width), self._inside(value + half_width)
        if math.isinf(below) and math.isinf(above):
            return value - half_width, value + half_width
        if math.isinf(above):
            factor = _exp(half_width / below)
            return self.low + below / factor, self.low + below * factor
        if math.isinf(below):
            factor = _exp(half_width / above)
            return self.high - above * factor, self.high - above / factor
        factor = _exp(half_width * (self.high - self.low) / (below * above))
        length, odds = self.high - self.low, below / above
        return (
            self.low + length * odds / (odds + factor),
            self.high - length / (1 + odds * factor),
        )

    def _inside(self, value: float) -> float:
        return min(max(value, self.low), self.high)


ANYWHERE = Range()
POSITIVE = Range(low=0.0)
UNIT = Range(0.0, 1.0)
SIGNED = Range(-1.0, 1.0)


def _exp(value: float) -> float:
    return float(np.exp(value)) if value < 700 else math.inf
