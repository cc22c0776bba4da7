"""The null of the ICA efficiency: Gaussian twins of a pair, sent through all that the pair was."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from repalign.aliases import FloatArray, IntArray
from repalign.core.ica.starts import MORE_STARTS
from repalign.core.inference.gaussian_twin import TwinLaw, TwinNull
from repalign.core.inference.splits import sample_groups
from repalign.core.moments import pair_moments
from repalign.core.rows import ArrayRows
from repalign.store.sources.in_memory import as_source
from repalign.workflows.compare.aligned import AlignedPair, Space
from repalign.workflows.compare.ica.starts import IcaOfSpace, choose_starts, make_starts
from repalign.workflows.compare.judge import PairFitter, ica_rows
from repalign.workflows.compare.nulls import rows_in_memory
from repalign.workflows.compare.pair_data import IcaOfSides, PairData
from repalign.workflows.compare.records import efficiency_of
from repalign.workflows.compare.settings import CompareSettings
from repalign.workflows.compare.spaces import fit_cost
from repalign.workflows.executor import InProcess
from repalign.workflows.machine import Machine

EFFICIENCY_MAPS = ("permutation", "rigid", "ica")
# Multiplications that the twins of one pair may take unless a number of them is asked for.
TWIN_BUDGET = 1e12
MOST_TWINS = 9
# Multiplications of a twin, some seconds, from which it is worth a unit of its own.
LONG_TWIN = 1e12
SIDES = ("source", "target")

Efficiencies = dict[str, float]
"""ICA efficiency by split."""


def efficiency_twins(
    pair: PairData,
    settings: CompareSettings,
    machine: Machine,
    made: Sequence[Efficiencies] = (),
) -> dict[str, TwinNull]:
    """Return the ICA efficiency of Gaussian twins by split, where ICA identifies nothing.

    A twin has the means and scatters of the pair, among groups and within, and up to a limit as
    many rows in the same groups and parts. Its efficiency is that of the same settings by the same
    functions: the same or disjoint rows, splits, starts. ``made`` are those of all twins, where
    they were units of their own.
    """
    if not made:
        numbers = range(n_twins(pair.aligned, pair.ica, settings, machine))
        made = draw_twins(pair, numbers, settings, machine)
    splits = dict.fromkeys(split for values in made for split in values)
    return {
        split: TwinNull(tuple(values[split] for values in made if np.isfinite(values[split])))
        for split in splits
    }


def draw_twins(
    pair: PairData, numbers: Sequence[int], settings: CompareSettings, machine: Machine
) -> list[Efficiencies]:
    """Return the ICA efficiency by split of the twins of these numbers."""
    if not numbers:
        return []
    n_rows = _n_rows(pair.aligned, settings, machine)
    chosen, aligned = _sampled(pair.aligned, n_rows, settings.seed)
    law = TwinLaw.of(pair.source.take(chosen), pair.target.take(chosen), aligned.groups)
    most = max((MORE_STARTS, *(space.n_starts for space in pair.ica.values())))
    made = []
    for place, number in enumerate(numbers):
        if len(numbers) > 1:  # within a pair, whose longest part tells how far it is
            machine.on_stage("pairs", place, len(numbers))
        rows = law.draw(number, seed=settings.seed)
        made.append(efficiencies(_twin(aligned, rows, settings, machine, most)))
    return made


def efficiencies(fitter: PairFitter) -> Efficiencies:
    """Return the ICA efficiency of a pair by split."""
    judged = [fitter.in_sample()]
    if fitter.split.judged:
        judged.append(fitter.held_out())
    return {errors.split: efficiency_of(errors) for errors in judged}


def n_twins(
    aligned: AlignedPair, ica: IcaOfSides, settings: CompareSettings, machine: Machine
) -> int:
    """Return how many twins a pair gets: where none are asked for, what the budget allows.

    None rather than one, which would say nothing.
    """
    if settings.n_gaussian is not None:
        return settings.n_gaussian
    return affordable_twins(twin_cost(aligned, ica, settings, machine))


def affordable_twins(cost: float) -> int:
    """Return how many twins of this cost each the budget allows: none rather than one."""
    affordable = int(TWIN_BUDGET / cost)
    return min(affordable, MOST_TWINS) if affordable > 1 else 0


def twin_cost(
    aligned: AlignedPair, ica: IcaOfSides, settings: CompareSettings, machine: Machine
) -> float:
    """Return about how many multiplications one twin takes."""
    starts = sum(space.n_starts for space in ica.values())
    return max(starts, 1) * fit_cost(_n_rows(aligned, settings, machine), max(aligned.dims))


def _n_rows(aligned: AlignedPair, settings: CompareSettings, machine: Machine) -> int:
    return rows_in_memory(aligned.used_dims(settings), aligned.n_rows, machine)


def _sampled(aligned: AlignedPair, n_rows: int, seed: int) -> tuple[IntArray, AlignedPair]:
    """Return which rows twins are like, and their groups and split as a pair without values."""
    if n_rows >= aligned.n_rows:
        return np.arange(aligned.n_rows), aligned
    chosen = sample_groups(aligned.groups, aligned.split.part_of_row, n_rows, seed=seed)
    sampled = aligned.groups[chosen], aligned.split.rows(chosen)
    return chosen, replace(aligned, groups=sampled[0], split=sampled[1])


def _twin(
    aligned: AlignedPair,
    rows: tuple[FloatArray, FloatArray],
    settings: CompareSettings,
    machine: Machine,
    most: int,
) -> PairFitter:
    """Return the fitter of a twin, whose ICA is that of any pair with ``most`` starts at most."""
    spaces = tuple(Space(as_source(side), None, ArrayRows(side)) for side in rows)
    twin = replace(aligned, spaces=(spaces[0], spaces[1]))
    split = twin.split
    parts = pair_moments(
        *(space.rows for space in spaces),
        part_of_row=split.part_of_row,
        n_parts=split.n_parts,
        **machine.limits("null"),
    )
    unmixed = PairData(twin, spaces[0].rows, spaces[1].rows, parts, {})
    wanted = {
        (side, on): IcaOfSpace(
            key=f"{space.key}-{on}",
            space=space,
            split=split,
            on=on,
            cut=None,
            moments=moments if side == 0 else moments.swapped(),
            settings=settings,
            side=SIDES[side],
        )
        for part in (None, *split.judged)
        for moments in (unmixed.moments_without(part),)
        for side, space in enumerate(spaces)
        for on in (ica_rows(settings, side, part),)
    }
    by_key = {each.key: each for each in wanted.values()}
    fits = choose_starts(by_key, make_starts(by_key, InProcess(), machine, most=most))
    ica: IcaOfSides = {place: fits[each.key] for place, each in wanted.items()}
    without_intervals = replace(settings, n_refits=0)
    return PairFitter(replace(unmixed, ica=ica), EFFICIENCY_MAPS, without_intervals, machine)
