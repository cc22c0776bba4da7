"""What is needed of spaces before their pairs are compared, under names of its content.

Keys name content, rows and conventions, so that equal work has equal keys: a space that is in
several pairs is a unit once.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from repalign.core.moments import PairMoments, leave_one_out, merge_all
from repalign.workflows.compare.aligned import AlignedPair, leading_components
from repalign.workflows.compare.half_samples import HalfSamples
from repalign.workflows.compare.ica.starts import IcaOfSpace
from repalign.workflows.compare.judge import ica_rows
from repalign.workflows.compare.pair_data import map_source
from repalign.workflows.compare.settings import CompareSettings
from repalign.workflows.compare.spaces import IcaRows, MomentsUnit, SpreadUnit

SIDES = ("source", "target")
Moments = Mapping[str, tuple[PairMoments, ...]]


def moments_units(pairs: Sequence[AlignedPair], settings: CompareSettings) -> Iterator[MomentsUnit]:
    """Yield the moments of both sides of every pair."""
    for pair in pairs:
        for side, space in enumerate(pair.spaces):
            # ICA, which comes next, needs the memory
            keeps_rows = not settings.has_ica
            yield MomentsUnit(moments_key(pair, side), space, pair.split, keeps_rows)


def spread_units(pairs: Sequence[AlignedPair], settings: CompareSettings) -> Iterator[SpreadUnit]:
    """Yield how far apart the rows of every target are."""
    for pair in pairs:
        for side, key in spread_needs(pair, settings):
            yield SpreadUnit(key, pair.spaces[side], settings.seed)


def spread_needs(pair: AlignedPair, settings: CompareSettings) -> Iterator[tuple[int, str]]:
    """Yield side and key of the spreads of one pair."""
    for side in (1, 0) if settings.both_directions else (1,):
        width = pair.common_width(settings)
        if width is not None and pair.dims[side] > width:
            continue  # of a side that is cut the pair decides which directions are left
        yield side, key_of("spread", pair.spaces[side].key, settings.seed)


Need = tuple[int, IcaRows]
"""A side (0 source, 1 target), and the rows on which its ICA is fitted."""


def ica_of_spaces(
    needs: Iterable[tuple[AlignedPair, Iterable[Need]]], moments: Moments, settings: CompareSettings
) -> dict[str, IcaOfSpace]:
    """Return by key the ICA that the maps of all pairs need, each once."""
    wanted: dict[str, IcaOfSpace] = {}
    if not settings.has_ica:
        return wanted
    for pair, of_pair in needs:
        for side, on in of_pair:
            key = ica_key(pair, side, on, settings)
            if key not in wanted:
                parts = moments[moments_key(pair, side)]
                wanted[key] = _ica_of_space(key, pair, side, on, parts, settings)
    return wanted


def ica_needs(pair: AlignedPair, settings: CompareSettings) -> Iterator[Need]:
    """Yield sides and rows of the ICA fits of one pair, in one direction or both."""
    for part in (None, *pair.split.judged):
        yield from _both_ways((ica_rows(pair, 0, part), ica_rows(pair, 1, part)), settings)


def ica_needs_of_samples(samples: HalfSamples, settings: CompareSettings) -> Iterator[Need]:
    """Yield the same of its half-samples."""
    for rows in samples.ica_rows():
        yield from _both_ways(rows, settings)


def _both_ways(rows: tuple[IcaRows, IcaRows], settings: CompareSettings) -> Iterator[Need]:
    """Yield what both sides need; the way back exchanges their halves."""
    yield from enumerate(rows)
    if settings.both_directions and rows[0] != rows[1]:
        yield from enumerate(rows[::-1])


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
    if on.only:
        fitting = merge_all(tuple(parts[part] for part in on.only))
    else:
        fitting = merge_all(parts) if on.part is None else leave_one_out(parts)[on.part]
    return IcaOfSpace(key, space, pair.split, on, cut, fitting, settings, SIDES[side])


def moments_key(pair: AlignedPair, side: int) -> str:
    """Return the name of the moments of the parts of one side."""
    return key_of("moments", pair.spaces[side].key, pair.split_key)


def ica_key(pair: AlignedPair, side: int, on: IcaRows, settings: CompareSettings) -> str:
    """Return the name of the ICA of some rows of one side."""
    width = pair.common_width(settings)
    how = (asdict(settings.ica), settings.starts, settings.seed)
    return key_of("ica", pair.spaces[side].key, pair.split_key, asdict(on), width, how)


def key_of(kind: str, *told: Any) -> str:
    """Return a name for work of this kind on what is told."""
    text = json.dumps(told, sort_keys=True)
    return f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:24]}"
