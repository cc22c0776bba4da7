"""Work on one pair that others can share: its shuffles."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from repalign.core.thread_choice import is_small, one_thread_if
from repalign.workflows.compare.judge import PairFitter
from repalign.workflows.compare.nulls import (
    JudgedOrder,
    judge_orders,
    rows_in_memory,
    shuffle_cost,
    shuffles_wanted,
)
from repalign.workflows.compare.pair import PairUnit, Shared, usable_maps
from repalign.workflows.compare.similarity.pair import judge_measure_orders, measure_shuffle_cost
from repalign.workflows.machine import Machine

# Multiplications of shuffles, some fifteen seconds of a core, that are worth a unit of
# their own: more than all of a pair take unless a number of them is asked for.
LONG_SHARE = 1.5e11


@dataclass(frozen=True, eq=False)
class ShareUnit:
    """Some of the shuffles of a pair in one direction.

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
    # what no share needs
    lean = replace(unit, samples=None, sample_moments=((), ()), sample_ica={})
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


def _ranges_of_shuffles(unit: PairUnit, machine: Machine) -> list[range]:
    settings, aligned = unit.settings, unit.aligned
    n_maps = len(usable_maps(aligned, settings)[0])
    if not settings.n_null or n_maps == 0:  # what is cheap is no share
        return []
    dims = aligned.used_dims(settings)
    n_rows = rows_in_memory(dims, aligned.n_rows, machine)
    cost = shuffle_cost(n_rows, dims, n_maps, len(aligned.split.judged))
    return _ranges(1 + shuffles_wanted(cost, settings), cost)  # and the order that is given


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


Work = Callable[[PairFitter, range], Mapping[str, Any]]
Ranges = Callable[[PairUnit, Machine], list[range]]
SHARED: dict[str, tuple[Work, Ranges]] = {
    "shuffles": (judge_orders, _ranges_of_shuffles),
    "measures": (_measures, _ranges_of_measures),
}
"""What of a pair can be shared, a field of ``Shared``: how some are done, and in which shares."""
