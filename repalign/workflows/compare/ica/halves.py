"""A pair halved again and again: how far its ICA hangs on which inputs there were.

Without one group ICA finds nearly the same components; with other inputs it may find others. Two
halves of the groups have no input in common, and what they differ by is what other inputs change.
Quarters of them tell how that falls with the number of inputs.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from repalign.aliases import FloatArray, IntArray
from repalign.core.inference.left_out import FEWEST_GROUPS
from repalign.core.inference.splits import Split, halving, quartering, samples_of
from repalign.core.maps.kinds import KIND_OF
from repalign.exceptions import InputError
from repalign.workflows.compare.aligned import AlignedPair
from repalign.workflows.compare.ica.twins import EFFICIENCY_MAPS
from repalign.workflows.compare.judge import PairFitter
from repalign.workflows.compare.pair_data import PairData
from repalign.workflows.compare.settings import CompareSettings
from repalign.workflows.compare.spaces import n_halvings
from repalign.workflows.machine import Machine

Deal = Callable[[IntArray, Sequence[int]], Split]


class Halver:
    """Halves pairs; those of the same groups alike, so that their ICA is fitted once."""

    def __init__(self, settings: CompareSettings) -> None:
        self._settings = settings
        self._known: dict[tuple[int, str], list[Split]] = {}

    def halved(self, pair: AlignedPair) -> list[AlignedPair]:
        """Return the pair split into halves and quarters, as often as the settings ask for.

        Into halves alone, where a quarter has no more rows than columns. Never, where there are
        too few groups, or a half has no more rows than columns.
        """
        number = n_halvings(pair.n_rows, max(pair.dims), self._settings)
        if number == 0:
            return []
        for deal, fewest_groups in ((quartering, 2 * FEWEST_GROUPS), (halving, FEWEST_GROUPS)):
            splits = self._splits(pair, deal, fewest_groups, number)
            fewest = min((int(np.bincount(each.part_of_row).min()) for each in splits), default=0)
            if self._settings.ica_rows == "disjoint":
                fewest //= 2
            if fewest > max(pair.dims):
                return [replace(pair, split=split) for split in splits]
        return []

    def _splits(
        self, pair: AlignedPair, deal: Deal, fewest_groups: int, number: int
    ) -> list[Split]:
        name = (id(pair.groups), deal.__name__)  # the pair keeps its groups, and so the identity
        if name not in self._known:
            seed, n_groups = self._settings.seed, np.unique(pair.groups).size
            draws = range(number if n_groups >= fewest_groups else 0)
            try:
                self._known[name] = [deal(pair.groups, (seed, k)) for k in draws]
            except InputError:  # of one group with half of the rows there are no quarters
                self._known[name] = []
        return self._known[name]


@dataclass(frozen=True, eq=False)
class Samples:
    """Mean errors of maps on the half, or quarter, that fitted them; NaN where ICA has no part.

    Attributes:
        halves: By halving, half and map.
        quarters: By halving, half, quarter of it and map; None where there are none.
    """

    halves: FloatArray
    quarters: FloatArray | None


def errors_of_halves(
    pairs: Iterable[PairData], names: Sequence[str], settings: CompareSettings, machine: Machine
) -> Samples | None:
    """Return the errors on halves and quarters; None where nothing was halved."""
    wanted = [name for name in names if KIND_OF[name].needs_ica or name in EFFICIENCY_MAPS]
    columns = [names.index(name) for name in wanted]
    found = []
    for pair in pairs:
        fitter = PairFitter(pair, wanted, settings, machine)
        samples = samples_of(fitter.split)
        errors = np.full((len(samples), len(names)), np.nan)
        for number, only in enumerate(samples):
            norms = fitter.of_sample(only)
            errors[number, columns] = [norms[name].mean() for name in wanted]
        found.append(errors)
    if not found:
        return None
    halves, quarters = np.stack([each[:2] for each in found]), None
    if all(len(each) > 2 for each in found):
        quarters = np.stack([each[2:].reshape(2, 2, -1) for each in found])
    return Samples(halves, quarters)
