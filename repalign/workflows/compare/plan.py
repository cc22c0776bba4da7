"""A comparison as independent units of work, in rounds: moments, spreads, starts of ICA, pairs.

The units of a round need only results of the rounds before.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from repalign.core.inference.splits import Bundles
from repalign.core.moments import PairMoments
from repalign.workflows.compare.aligned import AlignedPair, digest
from repalign.workflows.compare.half_samples import half_samples
from repalign.workflows.compare.ica.starts import choose_starts, make_starts
from repalign.workflows.compare.needs import (
    Moments,
    Need,
    ica_key,
    ica_needs,
    ica_needs_of_samples,
    ica_of_spaces,
    key_of,
    moments_key,
    moments_units,
    spread_needs,
    spread_units,
)
from repalign.workflows.compare.pair import PairResult, PairUnit
from repalign.workflows.compare.pair_data import IcaOfSides
from repalign.workflows.compare.settings import CompareSettings, without_ica
from repalign.workflows.compare.shares import SHARED, gathered, shares_of
from repalign.workflows.compare.spaces import (
    SpaceIca,
)
from repalign.workflows.executor import Executor, Unit
from repalign.workflows.machine import Machine
from repalign.workflows.study.remembering import Remembering
from repalign.workflows.study.tiles import HELD, tile_order

# Settings that say which pairs there are, and change nothing of a pair.
CHOOSING = {"layers", "within", "max_pairs"}


@dataclass(frozen=True, eq=False)
class Plan:
    """All pairs of a comparison, and how they are compared.

    Attributes:
        pairs: In the order of the results.
        settings: Conventions.
        keeps_maps: Whether the maps are part of the results.
    """

    pairs: Sequence[AlignedPair]
    settings: CompareSettings
    keeps_maps: bool = True

    @cached_property
    def _how(self) -> dict[str, Any]:
        return {k: v for k, v in asdict(self.settings).items() if k not in CHOOSING}

    def key(self, pair: AlignedPair) -> str:
        """Name of a pair's work: all that its result hangs on or tells."""
        moments = [moments_key(pair, side) for side in (0, 1)]
        sides = [
            (each.source.name, each.source.view, str(each.source.path), each.source.layer)
            for each in pair.spaces
        ]
        info = [json.dumps(dict(each.source.info), default=str) for each in pair.spaces]
        told = (sides, info, json.dumps(asdict(pair.report), default=str), digest(pair.groups))
        return key_of("pair", moments, told, self._how, self.keeps_maps)


def compare_all(plan: Plan, executor: Executor, machine: Machine) -> list[PairResult]:
    """Return the results of all pairs, in their order.

    What was done before and is kept (``Remembering``) is not done again, nor what only such
    pairs need.
    """
    known = executor.known if isinstance(executor, Remembering) else _unknown
    results: dict[int, list[PairResult]] = {}
    for number, pair in enumerate(plan.pairs):
        found = known(plan.key(pair), machine)
        if found is not None:
            results[number] = list(found)
    rest = [number for number in range(len(plan.pairs)) if number not in results]
    pairs = [plan.pairs[number] for number in rest]
    try:
        made = _compared(plan, pairs, executor, machine)
    finally:
        HELD.forget()
    results |= dict(zip(rest, made, strict=True))
    return [result for number in range(len(plan.pairs)) for result in results[number]]


def _compared(
    plan: Plan, pairs: Sequence[AlignedPair], executor: Executor, machine: Machine
) -> list[list[PairResult]]:
    """Return the results of some pairs, in one direction or both, round after round."""
    settings, single = plan.settings, replace(plan.settings, starts=1)
    known: dict[tuple[int, str], Bundles | None] = {}
    samples = [half_samples(pair, settings, known) for pair in pairs]
    every = [*pairs, *(each.aligned for each in samples if each is not None and each.has_ica)]
    moments = _do_once(moments_units(every, settings), executor, machine)
    unmixed = [pair for pair in pairs if _varies(pair, moments)]
    needs = ((pair, ica_needs(pair, settings)) for pair in unmixed)
    of_samples = (
        (each.aligned, ica_needs_of_samples(each, settings))
        for pair, each in zip(pairs, samples, strict=True)
        if each is not None and pair in unmixed
    )
    wanted = ica_of_spaces(needs, moments, settings)
    wanted |= ica_of_spaces(of_samples, moments, single)
    fits = choose_starts(wanted, make_starts(wanted, executor, machine))
    spreads = _do_once(spread_units(pairs, settings), executor, machine)
    units = []
    for pair, of_pair in zip(pairs, samples, strict=True):
        of_maps = settings if pair in unmixed else without_ica(settings)
        unit = PairUnit(
            key=plan.key(pair),
            aligned=pair,
            moments=_moments(pair, moments),
            ica=_ica(pair, ica_needs(pair, of_maps), fits, of_maps),
            spreads={side: spreads[key] for side, key in spread_needs(pair, settings)},
            settings=of_maps,
            keeps_maps=plan.keeps_maps,
        )
        if of_pair is not None:
            unit = replace(unit, samples=of_pair)
        if of_pair is not None and of_pair.has_ica:
            needed = ica_needs_of_samples(of_pair, settings) if pair in unmixed else ()
            unit = replace(
                unit,
                sample_moments=_moments(of_pair.aligned, moments),
                sample_ica=_ica(of_pair.aligned, needed, fits, single),
            )
        units.append(unit)
    order = tile_order(pairs, machine)
    units = _with_shares([units[number] for number in order], executor, machine)
    made = dict(zip(order, executor.map(units, machine), strict=True))
    return [made[number] for number in range(len(pairs))]


def _moments(
    pair: AlignedPair, moments: Moments
) -> tuple[tuple[PairMoments, ...], tuple[PairMoments, ...]]:
    return moments[moments_key(pair, 0)], moments[moments_key(pair, 1)]


def _ica(
    pair: AlignedPair,
    needs: Iterable[Need],
    fits: Mapping[str, SpaceIca],
    settings: CompareSettings,
) -> IcaOfSides:
    if not settings.has_ica:
        return {}
    return {need: fits[ica_key(pair, *need, settings)] for need in needs}


def _varies(pair: AlignedPair, moments: Moments) -> bool:
    """Tell whether every part of both sides varies, so that it can be unmixed."""
    keys = (moments_key(pair, side) for side in (0, 1))
    return all(np.trace(part.sxx) > 0 for key in keys for part in moments[key])


def _with_shares(units: list[PairUnit], executor: Executor, machine: Machine) -> list[PairUnit]:
    """Return the pairs, with what of them was long enough to be shared out."""
    shares = [shares_of(unit, machine) for unit in units]
    found: dict[str, Any] = {}
    for stage in SHARED:
        of_stage = (share for of_pair in shares for share in of_pair if share.stage == stage)
        found |= _do_once(of_stage, executor, machine)
    return [
        gathered(unit, [(share, found[share.key]) for share in of_pair])
        for unit, of_pair in zip(units, shares, strict=True)
    ]


def _unknown(key: str, machine: Machine) -> None:
    return None


def _do_once(units: Iterator[Unit[Any]], executor: Executor, machine: Machine) -> dict[str, Any]:
    """Return results by key; of units of one key the first is done."""
    by_key: dict[str, Unit[Any]] = {}
    for unit in units:
        by_key.setdefault(unit.key, unit)
    return dict(zip(by_key, executor.map(list(by_key.values()), machine), strict=True))
