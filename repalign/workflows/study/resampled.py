"""What shuffles and left-out groups say of each record, for questions about several pairs."""

import functools
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from repalign.aliases import FloatArray, IntArray
from repalign.core.inference.jackknife import Replicates, Statistic
from repalign.core.inference.kinds import PAIR_SHUFFLES
from repalign.core.inference.maximum import Draws
from repalign.core.inference.nulls import Null
from repalign.core.maps.kinds import KIND_OF
from repalign.store.joining.index import POOLED, RowIndex

if TYPE_CHECKING:
    from repalign.workflows.compare.draws import PairNulls
    from repalign.workflows.compare.measured import Measured
    from repalign.workflows.compare.scores import MapScores


@dataclass(frozen=True, eq=False)
class Resampled:
    """One map or measure of one pair and split, as an error: lower is closer.

    Attributes:
        name: Of the map or the measure.
        split: How it was judged.
        draws: The null, where the pairing was tested.
        replicates: The value on all groups and on choices of them, where there is an interval; of
            maps over the RMS radius of the target.
        rows: Name of the inputs and of their split: groups are left out alike where it is equal.
    """

    name: str
    split: str
    draws: Draws | None
    replicates: Replicates | None
    rows: str


def resampled_pair(
    index: RowIndex,
    judged: "Sequence[MapScores]",
    nulls: "PairNulls | None",
    measured: "Sequence[Measured]",
) -> Iterator[Resampled]:
    """Yield what questions about several pairs ask of each map and measure."""
    _, rows = input_places(index)
    first = PAIR_SHUFFLES[0].name
    for errors in judged:
        null = None if nulls is None else nulls.of(first, errors.split)
        for number, name in enumerate(errors.names):
            # Diameters of different targets do not compare: outlying rows set them.
            is_halved = errors.split == "in-sample" or KIND_OF[name].needs_ica
            replicates = errors.halves if is_halved else errors.with_radius
            if replicates is not None:
                replicates = _one(replicates, _over_radius(number))
            yield Resampled(name, errors.split, _draws(null, number), replicates, rows)
    for result in measured:
        for values in result.scores:
            null = None if result.nulls is None else result.nulls.of(first, values.split)
            for number, measure in enumerate(result.measures):
                replicates = values.halves if values.split == "in-sample" else values.left_out
                if replicates is not None:
                    replicates = _one(replicates, _signed(number, -measure.sign))
                yield Resampled(measure.name, values.split, _draws(null, number), replicates, rows)


def _draws(null: Null | None, number: int) -> Draws | None:
    if null is None or null.refusal is not None:
        return None
    values = np.concatenate([null.observed[None, number], null.shuffled[:, number]])
    return Draws(null.orders, values)


def _over_radius(number: int) -> Statistic:
    def over_radius(values: FloatArray) -> FloatArray:
        radius = values[..., -1]
        return values[..., number] / np.where(radius > 0, radius, np.nan)

    return over_radius


def _signed(number: int, sign: float) -> Statistic:
    return lambda values: sign * values[..., number]


def _one(replicates: Replicates, of: Statistic) -> Replicates:
    """Return one statistic of the replicates."""
    full, draws = of(replicates.full[None]), of(replicates.draws)[:, None]
    return replace(replicates, full=full, draws=draws)


@functools.lru_cache(maxsize=1)
def input_places(index: RowIndex) -> tuple[IntArray, str]:
    """Return the place of every row among the inputs in their own order, and a name of these.

    Both are the same wherever the rows stand.
    """
    first = index.sample if index.ids is None else index.ids
    values, place = np.unique(first, return_inverse=True)
    told = hashlib.sha256(repr(values.tolist()).encode())
    if np.any(index.token != POOLED):
        tokens = index.token.astype(np.int64) - POOLED
        keys, place = np.unique(place * (tokens.max() + 1) + tokens, return_inverse=True)
        told.update(keys.tobytes())
    return place.astype(np.int64), told.hexdigest()[:16]
