"""What shuffles and left-out groups say of each record, for questions about several pairs."""

import functools
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from repalign.aliases import FloatArray, IntArray
from repalign.core.inference.kinds import PAIR_SHUFFLES
from repalign.core.inference.left_out import LeftOut
from repalign.core.inference.maximum import Draws
from repalign.core.inference.nulls import NullErrors
from repalign.store.joining.index import POOLED, RowIndex

if TYPE_CHECKING:
    from repalign.workflows.compare.judge import SplitErrors
    from repalign.workflows.compare.nulls import PairNulls
    from repalign.workflows.compare.similarity.pair import MeasureResult


@dataclass(frozen=True, eq=False)
class Resampled:
    """One map or measure of one pair and split, as an error: lower is closer.

    Attributes:
        name: Of the map or the measure.
        split: How it was judged.
        draws: The null, where the pairing was tested.
        left_out: The value with all groups and without each, where there is an interval; of maps
            over the rms radius of the target.
        rows: Name of the inputs and of their split: groups are left out alike where it is equal.
    """

    name: str
    split: str
    draws: Draws | None
    left_out: LeftOut | None
    rows: str


def resampled_pair(
    index: RowIndex,
    judged: "Sequence[SplitErrors]",
    nulls: "PairNulls | None",
    measured: "Sequence[MeasureResult]",
) -> Iterator[Resampled]:
    """Yield what questions about several pairs ask of each map and measure."""
    _, rows = input_places(index)
    first = PAIR_SHUFFLES[0].name
    for errors in judged:
        # Diameters of different targets do not compare: outlying rows set them.
        radii = np.array([errors.scales[name].rms_radius for name in errors.norms])
        null = None if nulls is None else nulls.of(first, errors.split)
        scales = 1 / np.where(radii > 0, radii, np.nan)
        names = tuple(errors.norms)
        yield from _resampled(names, errors.split, null, errors.left_out, rows=rows, scales=scales)
    for each in measured:
        names = tuple(measure.name for measure in each.measures)
        signs = np.array([-measure.sign for measure in each.measures])
        for values in each.values:
            null = None if each.nulls is None else each.nulls.of(first, values.split)
            yield from _resampled(
                names, values.split, null, values.left_out, rows=rows, scales=signs
            )


def _resampled(
    names: Sequence[str],
    split: str,
    null: NullErrors | None,
    left_out: LeftOut | None,
    *,
    rows: str,
    scales: FloatArray,
) -> Iterator[Resampled]:
    """Yield what is known of every name; left-out values are multiplied by their scale."""
    for number, name in enumerate(names):
        draws = None
        if null is not None and null.refusal is None:
            values = np.concatenate([null.observed[None, number], null.shuffled[:, number]])
            draws = Draws(null.orders, values)
        own = None
        if left_out is not None:
            own = replace(
                left_out,
                full=scales[number] * left_out.full[number : number + 1],
                without=scales[number] * left_out.without[:, number : number + 1],
                halves=None,  # layers are told apart by the groups that both can do without
                quarters=None,
            )
        yield Resampled(name, split, draws, own, rows)


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
