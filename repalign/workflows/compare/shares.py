"""Work on one pair that others can share: doubts about its starts, its twins, its shuffles."""

from dataclasses import dataclass, replace

import numpy as np

from repalign.core.thread_choice import is_small, one_thread_if
from repalign.workflows.compare.ica.twins import (
    EFFICIENCY_MAPS,
    LONG_TWIN,
    Efficiencies,
    draw_twins,
    n_twins,
    twin_cost,
)
from repalign.workflows.compare.judge import PairFitter
from repalign.workflows.compare.nulls import (
    JudgedOrders,
    judge_orders,
    rows_in_memory,
    shuffle_cost,
    shuffles_wanted,
)
from repalign.workflows.compare.pair import PairUnit, usable_maps
from repalign.workflows.compare.records import Summary
from repalign.workflows.machine import Machine

# Multiplications of shuffles, some fifteen seconds of a core, that are worth a unit of their own:
# more than all of a pair take unless a number of them is asked for.
LONG_SHUFFLES = 1.5e11
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
            fitter = PairFitter(unit.read(machine), EFFICIENCY_MAPS, settings, machine)
            summary = Summary(fitter.in_sample())
        by_starts = summary.efficiency_start_half_width("ica")
        if by_starts is None or by_starts <= NARROW:
            return False
        _, interval = summary.efficiency("ica")
        half = (interval.high - interval.low) / 2
        # of the two in squares; without refits the rows are not known to move it at all
        by_rows_squared = half**2 - by_starts**2 if np.isfinite(half) else 0.0
        return bool(by_starts**2 > by_rows_squared)


@dataclass(frozen=True, eq=False)
class TwinUnit:
    """One Gaussian twin of a pair in one direction: its ICA efficiency by split."""

    pair: PairUnit
    direction: int
    number: int
    stage = "twins"

    @property
    def key(self) -> str:
        """Name of the work."""
        return f"twin-{self.pair.key}-{self.direction}-{self.number}"

    def run(self, machine: Machine) -> Efficiencies:
        """Draw and judge it."""
        unit = self.pair
        with one_thread_if(is_small(unit.aligned.n_rows, *unit.aligned.dims)):
            forth = unit.held(machine)
            pair = forth.reversed() if self.direction else forth
            return draw_twins(pair, [self.number], unit.settings, machine)[0]


@dataclass(frozen=True, eq=False)
class ShuffleUnit:
    """Some of the shuffles of a pair in one direction: the errors of all maps in these orders."""

    pair: PairUnit
    direction: int
    orders: range
    stage = "shuffles"

    @property
    def key(self) -> str:
        """Name of the work."""
        return f"shuffles-{self.pair.key}-{self.direction}-{self.orders.start}-{self.orders.stop}"

    def run(self, machine: Machine) -> JudgedOrders:
        """Fit and judge all maps in these orders."""
        unit = self.pair
        with one_thread_if(is_small(unit.aligned.n_rows, *unit.aligned.dims)):
            forth = unit.held(machine)
            pair = forth.reversed() if self.direction else forth
            names, _ = usable_maps(pair.aligned, unit.settings)
            return judge_orders(PairFitter(pair, names, unit.settings, machine), self.orders)


def long_shuffles(unit: PairUnit, machine: Machine) -> list[ShuffleUnit]:
    """Return the shuffles of a pair in shares, where these are long enough to be units.

    Whether they are hangs on the pair alone, and no number on whether they are.
    """
    settings, aligned = unit.settings, unit.aligned
    names, _ = usable_maps(aligned, settings)
    if not names or settings.n_null == 0:
        return []
    width = aligned.common_width(settings)
    dims = aligned.dims if width is None else (width, width)
    n_rows = rows_in_memory(dims, aligned.n_rows, machine)
    cost = shuffle_cost(n_rows, dims, len(names), len(aligned.split.judged))
    number = shuffles_wanted(cost, settings)
    size = max(int(LONG_SHUFFLES / cost), 1)
    if number <= size:
        return []
    unit = replace(unit, halves=())  # which no shuffle needs
    return [
        ShuffleUnit(unit, back, range(first, min(first + size, number + 1)))
        for back in unit.directions
        for first in range(0, number + 1, size)
    ]


def long_twins(unit: PairUnit, machine: Machine) -> list[TwinUnit]:
    """Return the twins of a pair, where each of them is long enough to be a unit.

    Whether it is hangs on the pair alone, and no number on whether it is.
    """
    told = unit.aligned, unit.ica, unit.settings, machine
    if not set(EFFICIENCY_MAPS) <= set(usable_maps(unit.aligned, unit.settings)[0]):
        return []
    if not (number := n_twins(*told)) or twin_cost(*told) < LONG_TWIN:
        return []
    unit = replace(unit, halves=())  # which no twin needs
    return [TwinUnit(unit, back, twin) for back in unit.directions for twin in range(number)]
