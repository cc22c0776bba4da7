"""A pair halved again and again: how far its ICA hangs on which inputs there were.

Without one group ICA finds nearly the same components; with other inputs it may find others. Two
halves of the groups have no input in common, and what they differ by is what other inputs change.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from repalign.aliases import FloatArray
from repalign.core.inference.left_out import FEWEST_GROUPS
from repalign.core.inference.splits import Split, halving
from repalign.core.maps.kinds import KIND_OF
from repalign.core.rows import SubsetRows
from repalign.workflows.compare.aligned import AlignedPair
from repalign.workflows.compare.ica.twins import EFFICIENCY_MAPS
from repalign.workflows.compare.judge import PairFitter
from repalign.workflows.compare.pair_data import PairData
from repalign.workflows.compare.settings import CompareSettings
from repalign.workflows.compare.spaces import n_halvings
from repalign.workflows.machine import Machine


class Halver:
    """Halves pairs; those of the same groups alike, so that their ICA is fitted once."""

    def __init__(self, settings: CompareSettings) -> None:
        self._settings = settings
        self._known: dict[int, list[Split]] = {}

    def halved(self, pair: AlignedPair) -> list[AlignedPair]:
        """Return the pair split into halves, as often as the settings ask for.

        Never, where there are too few groups, or a half has no more rows than columns.
        """
        number = n_halvings(pair.n_rows, max(pair.dims), self._settings)
        if number == 0:
            return []
        if id(pair.groups) not in self._known:  # the pair keeps its groups, and so the identity
            self._known[id(pair.groups)] = self._halvings(pair, number)
        splits = self._known[id(pair.groups)]
        fewest = min((int(np.bincount(split.part_of_row).min()) for split in splits), default=0)
        if self._settings.ica_rows == "disjoint":
            fewest //= 2
        return [replace(pair, split=split) for split in splits] if fewest > max(pair.dims) else []

    def _halvings(self, pair: AlignedPair, number: int) -> list[Split]:
        if np.unique(pair.groups).size < FEWEST_GROUPS:
            return []
        return [halving(pair.groups, (self._settings.seed, k)) for k in range(number)]


def errors_of_halves(
    pairs: Iterable[PairData], names: Sequence[str], settings: CompareSettings, machine: Machine
) -> FloatArray | None:
    """Return the mean errors of maps on the half that fitted them, by halving, half and map.

    NaN for maps of which neither ICA nor its efficiency is made; None where nothing was halved.
    """
    wanted = [name for name in names if KIND_OF[name].needs_ica or name in EFFICIENCY_MAPS]
    columns = [names.index(name) for name in wanted]
    found = []
    for pair in pairs:
        fitter = PairFitter(pair, wanted, settings, machine)
        errors = np.full((2, len(names)), np.nan)
        for left_out in (0, 1):
            rows = fitter.split.fitting_rows(left_out)
            half = SubsetRows(pair.source, rows), SubsetRows(pair.target, rows)
            norms = fitter.norms(*half, fitter.fit(left_out))
            errors[left_out, columns] = [norms[name].mean() for name in wanted]
        found.append(errors)
    return np.stack(found) if found else None
