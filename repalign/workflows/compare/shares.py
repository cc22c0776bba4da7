"""Work on one pair that others can share: doubts of its starts, twins, shuffles, refits."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

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
    JudgedOrder,
    judge_orders,
    rows_in_memory,
    shuffle_cost,
    shuffles_wanted,
)
from repalign.workflows.compare.pair import PairUnit, Shared, usable_maps
from repalign.workflows.compare.records import Summary
from repalign.workflows.compare.refits import (
    most_refits,
    n_bundles,
    refit_cost,
    some_refits,
    with_refits,
)
from repalign.workflows.compare.similarity.pair import judge_measure_orders, measure_shuffle_cost
from repalign.workflows.machine import Machine

# Multiplications of shuffles or refits, some fifteen seconds of a core, that are worth a unit of
# their own: more than all of a pair take unless a number of them is asked for.
LONG_SHARE = 1.5e11
# Half width of an efficiency by its starts alone that calls for no more of them.
NARROW = 0.1


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
            summary = Summary(with_refits(fitter, fitter.in_sample()))
        by_starts = summary.efficiency_start_half_width("ica")
        if by_starts is None or by_starts <= NARROW:
            return False
        _, interval = summary.efficiency("ica")
        half = (interval.high - interval.low) / 2
        # of the two in squares; without refits the rows are not known to move it at all
        by_rows_squared = half**2 - by_starts**2 if np.isfinite(half) else 0.0
        return bool(by_starts**2 > by_rows_squared)


@dataclass(frozen=True, eq=False)
class ShareUnit:
    """Some of the twins, shuffles or refits of a pair in one direction.

    Attributes:
        pair: The pair.
        direction: 0 is forth, 1 is back.
        stage: Which of them, by name in ``SHARED``.
        numbers: Those that are done.
    """

    pair: PairUnit
    direction: int
    stage: str
    numbers: range

    @property
    def key(self) -> str:
        """Name of the work."""
        first, behind = self.numbers.start, self.numbers.stop
        return f"{self.stage}-{self.pair.key}-{self.direction}-{first}-{behind}"

    def run(self, machine: Machine) -> Any:
        """Do them."""
        unit = self.pair
        with one_thread_if(is_small(unit.aligned.n_rows, *unit.aligned.dims)):
            forth = unit.held(machine)
            pair = forth.reversed() if self.direction else forth
            names, _ = usable_maps(pair.aligned, unit.settings)
            work, _ = SHARED[self.stage]
            return work(PairFitter(pair, names, unit.settings, machine), self.numbers)


def shares_of(unit: PairUnit, machine: Machine) -> list[ShareUnit]:
    """Return what of a pair others can do: what is long enough to be a unit.

    Whether it is hangs on the pair alone, and no number on whether it is.
    """
    lean = replace(unit, halves=())  # which no share needs
    return [
        ShareUnit(lean, back, stage, numbers)
        for stage, (_, ranges) in SHARED.items()
        for back in unit.directions
        for numbers in ranges(unit, machine)
    ]


def gathered(unit: PairUnit, shares: Sequence[tuple[ShareUnit, Any]]) -> PairUnit:
    """Return a pair with what its shares gave."""
    shared: dict[int, Shared] = {}
    for share, found in shares:
        given = shared.get(share.direction, Shared())
        shared[share.direction] = given.with_more(share.stage, found)
    return replace(unit, shared=shared)


def _ranges_of_twins(unit: PairUnit, machine: Machine) -> list[range]:
    told = unit.aligned, unit.ica, unit.settings, machine
    if not set(EFFICIENCY_MAPS) <= set(usable_maps(unit.aligned, unit.settings)[0]):
        return []
    if not (number := n_twins(*told)) or twin_cost(*told) < LONG_TWIN:
        return []
    return [range(twin, twin + 1) for twin in range(number)]


def _ranges_of_shuffles(unit: PairUnit, machine: Machine) -> list[range]:
    settings, aligned = unit.settings, unit.aligned
    n_maps = len(usable_maps(aligned, settings)[0])
    if not settings.n_null or n_maps == 0:  # what is cheap is no share
        return []
    dims = aligned.used_dims(settings)
    n_rows = rows_in_memory(dims, aligned.n_rows, machine)
    cost = shuffle_cost(n_rows, dims, n_maps, len(aligned.split.judged))
    return _ranges(1 + shuffles_wanted(cost, settings), cost)  # and the order that is given


def _ranges_of_refits(unit: PairUnit, machine: Machine) -> list[range]:
    settings, aligned = unit.settings, unit.aligned
    n_maps = len(usable_maps(aligned, settings)[0])
    if not settings.n_refits or n_maps == 0:
        return []
    cost = refit_cost(aligned.n_rows, max(aligned.used_dims(settings)), n_maps)
    return _ranges(n_bundles(aligned.groups, most_refits(cost, settings)), cost)


def _ranges_of_measures(unit: PairUnit, machine: Machine) -> list[range]:
    settings, aligned = unit.settings, unit.aligned
    if not settings.measures or not settings.n_null:  # what is cheap is no share
        return []
    dims, n_judged = aligned.used_dims(settings), len(aligned.split.judged)
    cost = measure_shuffle_cost(aligned.n_rows, dims, n_judged, settings)
    return _ranges(1 + settings.n_null, cost)


def _measures(fitter: PairFitter, numbers: range) -> dict[str, JudgedOrder]:
    return judge_measure_orders(fitter.pair, fitter.settings, fitter.machine, numbers)


def _ranges(number: int, cost: float) -> list[range]:
    """Return so many pieces of work in shares that are worth it; none where all are one share."""
    size = max(int(LONG_SHARE / cost), 1)
    if number <= size:
        return []
    return [range(first, min(first + size, number)) for first in range(0, number, size)]


def _twins(fitter: PairFitter, numbers: range) -> dict[str, Efficiencies]:
    made = draw_twins(fitter.pair, numbers, fitter.settings, fitter.machine)
    return {str(number): twin for number, twin in zip(numbers, made, strict=True)}


Work = Callable[[PairFitter, range], Mapping[str, Any]]
Ranges = Callable[[PairUnit, Machine], list[range]]
SHARED: dict[str, tuple[Work, Ranges]] = {
    "twins": (_twins, _ranges_of_twins),
    "shuffles": (judge_orders, _ranges_of_shuffles),
    "refits": (some_refits, _ranges_of_refits),
    "measures": (_measures, _ranges_of_measures),
}
"""What of a pair can be shared, a field of ``Shared``: how some are done, and in which shares."""
