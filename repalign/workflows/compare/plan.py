"""A comparison as independent units of work, in rounds: moments, spreads, starts of ICA, pairs.

The units of a round need only results of the rounds before. A space that is in several pairs is
a unit once; keys name content, rows and conventions, so that equal work has equal keys.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from repalign.aliases import IntArray
from repalign.core.ica.components import IcaFit
from repalign.core.ica.starts import MOST_STARTS
from repalign.core.moments import PairMoments, leave_one_out, merge_all
from repalign.workflows.compare.aligned import AlignedPair, digest, leading_components
from repalign.workflows.compare.halves import Halver
from repalign.workflows.compare.judge import ica_rows
from repalign.workflows.compare.pair import DoubtUnit, PairResult, PairUnit, long_twins
from repalign.workflows.compare.pair_data import map_source
from repalign.workflows.compare.settings import CompareSettings
from repalign.workflows.compare.spaces import (
    IcaRows,
    MomentsUnit,
    SpaceIca,
    SpreadUnit,
    judging_rows,
)
from repalign.workflows.compare.starts import IcaOfSpace, choose_starts, make_starts
from repalign.workflows.compare.twins import Efficiencies
from repalign.workflows.executor import Executor, Unit
from repalign.workflows.machine import Machine
from repalign.workflows.study.remembering import Remembering
from repalign.workflows.study.tiles import HELD, tile_order

SIDES = ("source", "target")
# Settings that say which pairs there are, and change nothing of a pair.
CHOOSING = {"layers", "within", "max_pairs"}
Moments = Mapping[str, tuple[PairMoments, ...]]


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
        moments = [_moments_key(pair, side) for side in (0, 1)]
        sides = [
            (each.source.name, each.source.view, str(each.source.path), each.source.layer)
            for each in pair.spaces
        ]
        info = [json.dumps(dict(each.source.info), default=str) for each in pair.spaces]
        told = (sides, info, json.dumps(asdict(pair.report), default=str), digest(pair.groups))
        return _key("pair", moments, told, self._how, self.keeps_maps)


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
    halver = Halver(settings)
    halved = [halver.halved(pair) for pair in pairs]
    every = [*pairs, *chain(*halved)]
    moments = _do_once(moments_units(every, settings), executor, machine)
    halved = [[half for half in of_pair if _varies(half, moments)] for of_pair in halved]
    wanted = ica_of_spaces(pairs, moments, settings)
    of_halves = ica_of_spaces([*chain(*halved)], moments, single, is_halved=True)
    starts = make_starts(wanted | of_halves, executor, machine)
    fits = choose_starts(wanted | of_halves, starts)
    spreads = _do_once(spread_units(pairs, settings), executor, machine)
    units = []
    for pair, of_pair in zip(pairs, halved, strict=True):
        unit = replace(
            _unit(pair, moments, fits, settings),
            key=plan.key(pair),
            spreads={where: spreads[key] for where, key, _ in _spread_needs(pair, settings)},
            keeps_maps=plan.keeps_maps,
            halves=tuple(_unit(half, moments, fits, single, is_halved=True) for half in of_pair),
        )
        units.append(unit)
    units = _with_more_starts(units, wanted, starts, executor, machine)
    order = tile_order(pairs, machine)
    units = _with_twins([units[number] for number in order], executor, machine)
    made = dict(zip(order, executor.map(units, machine), strict=True))
    return [made[number] for number in range(len(pairs))]


def _varies(half: AlignedPair, moments: Moments) -> bool:
    """Whether either half of the rows can be unmixed, on both sides."""
    keys = (_moments_key(half, side) for side in (0, 1))
    return all(np.trace(part.sxx) > 0 for key in keys for part in moments[key])


def _with_more_starts(
    units: list[PairUnit],
    wanted: Mapping[str, IcaOfSpace],
    made: Mapping[str, Sequence[IcaFit]],
    executor: Executor,
    machine: Machine,
) -> list[PairUnit]:
    """Return the pairs, with more starts of ICA where their efficiency hangs on too few.

    What a pair takes hangs on the pair alone: the first starts of a space are the same for all.
    """
    keys = [{where: ica.key for where, ica in unit.ica.items()} for unit in units]
    may_have = {key for key, ica in wanted.items() if ica.next_starts(made[key], MOST_STARTS)}
    asked = [number for number, of in enumerate(keys) if may_have & set(of.values())]
    doubts = executor.map([DoubtUnit(units[number]) for number in asked], machine)
    doubted = [number for number, doubt in zip(asked, doubts, strict=True) if doubt]
    again = {key: wanted[key] for number in doubted for key in keys[number].values()}
    fits = choose_starts(again, make_starts(again, executor, machine, most=MOST_STARTS, made=made))
    for number in doubted:
        ica = {where: fits[key] for where, key in keys[number].items()}
        units[number] = replace(units[number], ica=ica)
    return units


def _with_twins(units: list[PairUnit], executor: Executor, machine: Machine) -> list[PairUnit]:
    """Return the pairs, with what their twins gave where these are long enough to be units."""
    wanted = [long_twins(unit, machine) for unit in units]
    made = _do_once((twin for of_pair in wanted for twin in of_pair), executor, machine)
    found: list[dict[int, list[Efficiencies]]] = [{} for _ in units]
    for twins, of_pair in zip(found, wanted, strict=True):
        for twin in of_pair:
            twins.setdefault(twin.direction, []).append(made[twin.key])
    return [replace(unit, twins=twins) for unit, twins in zip(units, found, strict=True)]


def _unknown(key: str, machine: Machine) -> None:
    return None


def _do_once(units: Iterator[Unit[Any]], executor: Executor, machine: Machine) -> dict[str, Any]:
    """Return results by key; of units of one key the first is done."""
    by_key: dict[str, Unit[Any]] = {}
    for unit in units:
        by_key.setdefault(unit.key, unit)
    return dict(zip(by_key, executor.map(list(by_key.values()), machine), strict=True))


def moments_units(pairs: Sequence[AlignedPair], settings: CompareSettings) -> Iterator[MomentsUnit]:
    """Yield the moments of both sides of every pair."""
    for pair in pairs:
        for side, space in enumerate(pair.spaces):
            # ICA, which comes next, needs the memory
            keeps_rows = not settings.has_ica
            yield MomentsUnit(_moments_key(pair, side), space, pair.split, keeps_rows)


def spread_units(pairs: Sequence[AlignedPair], settings: CompareSettings) -> Iterator[SpreadUnit]:
    """Yield how far apart the rows of every target are."""
    for pair in pairs:
        for (side, _), key, judged in _spread_needs(pair, settings):
            yield SpreadUnit(key, pair.spaces[side], judged, settings.seed)


def _spread_needs(
    pair: AlignedPair, settings: CompareSettings
) -> Iterator[tuple[tuple[int, bool], str, IntArray | None]]:
    """Yield side and rows, key, and those rows of the spreads of one pair."""
    judged = judging_rows(pair.split, settings) if pair.split.judged else None
    for side in (1, 0) if settings.both_directions else (1,):
        width = pair.common_width(settings)
        if width is not None and pair.dims[side] > width:
            continue  # of a side that is cut the pair decides which directions are left
        for rows in (None,) if judged is None or not settings.maps else (None, judged):
            name = None if rows is None else digest(rows)
            yield (
                (side, rows is not None),
                _key("spread", pair.spaces[side].key, name, settings.seed),
                rows,
            )


def ica_of_spaces(
    pairs: Sequence[AlignedPair],
    moments: Moments,
    settings: CompareSettings,
    *,
    is_halved: bool = False,
) -> dict[str, IcaOfSpace]:
    """Return by key the ICA that the maps of all pairs need, each once.

    ``is_halved`` says that these are halves, of which the whole is not fitted.
    """
    wanted: dict[str, IcaOfSpace] = {}
    if not settings.has_ica:
        return wanted
    for pair in pairs:
        for side, on in _ica_needs(pair, settings, is_halved=is_halved):
            key = _ica_key(pair, side, on, settings)
            if key not in wanted:
                parts = moments[_moments_key(pair, side)]
                wanted[key] = _ica_of_space(key, pair, side, on, parts, settings)
    return wanted


def _unit(
    pair: AlignedPair,
    moments: Moments,
    fits: Mapping[str, SpaceIca],
    settings: CompareSettings,
    *,
    is_halved: bool = False,
) -> PairUnit:
    """Return a pair, of which its name and what the caller knows of it is to be added."""
    keys = [_moments_key(pair, side) for side in (0, 1)]
    needs = _ica_needs(pair, settings, is_halved=is_halved) if settings.has_ica else ()
    ica = {(side, on): fits[_ica_key(pair, side, on, settings)] for side, on in needs}
    return PairUnit("", pair, (moments[keys[0]], moments[keys[1]]), ica, {}, settings)


def _ica_needs(
    pair: AlignedPair, settings: CompareSettings, *, is_halved: bool = False
) -> Iterator[tuple[int, IcaRows]]:
    """Yield sides and rows of the ICA fits of one pair, in one direction or both."""
    for part in pair.split.judged if is_halved else (None, *pair.split.judged):
        for side in (0, 1):
            # the halves of a side are those of its place, which the way back exchanges
            places = (side, 1 - side) if settings.both_directions else (side,)
            for on in dict.fromkeys(ica_rows(settings, place, part) for place in places):
                yield side, on


def _ica_of_space(
    key: str,
    pair: AlignedPair,
    side: int,
    on: IcaRows,
    parts: tuple[PairMoments, ...],
    settings: CompareSettings,
) -> IcaOfSpace:
    space, cut, width = pair.spaces[side], None, pair.common_width(settings)
    if width is not None and space.dim > width:
        cut = leading_components(merge_all(parts), width)
        parts = tuple(map_source(part, cut) for part in parts)
    fitting = merge_all(parts) if on.part is None else leave_one_out(parts)[on.part]
    return IcaOfSpace(key, space, pair.split, on, cut, fitting, settings, SIDES[side])


def _moments_key(pair: AlignedPair, side: int) -> str:
    return _key("moments", pair.spaces[side].key, pair.split_key)


def _ica_key(pair: AlignedPair, side: int, on: IcaRows, settings: CompareSettings) -> str:
    width = pair.common_width(settings)
    how = (asdict(settings.ica), settings.starts, settings.seed)
    return _key("ica", pair.spaces[side].key, pair.split_key, asdict(on), width, how)


def _key(kind: str, *told: Any) -> str:
    """Return a name for work of this kind on what is told."""
    text = json.dumps(told, sort_keys=True)
    return f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:24]}"
