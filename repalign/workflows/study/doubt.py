"""Whether the ICA efficiency of a pair hangs on the starts more than on the rows."""

from dataclasses import dataclass, replace

import numpy as np

from repalign.core.thread_choice import is_small, one_thread_if
from repalign.workflows.compare.judge import PairFitter
from repalign.workflows.compare.pair import PairUnit, usable_maps
from repalign.workflows.compare.pair_data import read_pair
from repalign.workflows.compare.records import Summary
from repalign.workflows.compare.twins import EFFICIENCY_MAPS
from repalign.workflows.machine import Machine

NARROW = 0.1
"""Half width of an efficiency by its starts alone that calls for no more of them."""


@dataclass(frozen=True, eq=False)
class DoubtUnit:
    """Asks whether a pair needs more starts than it has, by its in-sample efficiency."""

    pair: PairUnit
    stage = "starts"

    @property
    def key(self) -> str:
        """Name of the work."""
        return f"doubt-{self.pair.key}"

    def run(self, machine: Machine) -> bool:
        """Return whether starts move it by more than rows do, and by more than is narrow."""
        unit, settings = self.pair, self.pair.settings
        if not set(EFFICIENCY_MAPS) <= set(usable_maps(unit.aligned, settings)[0]):
            return False
        with one_thread_if(is_small(unit.aligned.n_rows, *unit.aligned.dims)):
            pair = read_pair(unit.aligned, unit.moments, unit.ica, settings, machine)
            pair = replace(pair, spreads=unit.spreads)
            fitter = PairFitter(pair, EFFICIENCY_MAPS, settings, machine)
            summary = Summary(fitter.in_sample())
        by_starts = summary.efficiency_start_half_width("ica")
        if by_starts is None or by_starts <= NARROW:
            return False
        _, interval = summary.efficiency("ica")
        half = (interval.high - interval.low) / 2
        # of the two in squares; without refits the rows are not known to move it at all
        by_rows_squared = half**2 - by_starts**2 if np.isfinite(half) else 0.0
        return bool(by_starts**2 > by_rows_squared)
