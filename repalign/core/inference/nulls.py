"""What the errors would be if the rows were not paired: the shuffled-pairing null.

The target's rows are shuffled within each part of the split, all maps are fitted again and
judged again, many times. The observed errors are computed on the very same rows, so that the
p-value (b + 1) / (m + 1) of a permutation test holds exactly, subsample or not.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int

from repalign.core.inference.splits import Split
from repalign.core.maps.affine import AffineMap
from repalign.core.moments import PairMoments, leave_one_out, merge_all, pair_moments
from repalign.core.rows import ArrayRows

# A mean norm over this many rows is known to well under a percent; the maps see all rows.
MAX_JUDGED = 4000


@dataclass(frozen=True, eq=False)
class JudgedMap:
    """A fitted map, and the space in which its error lives: the target's unless said."""

    map: AffineMap
    target_space: AffineMap | None = None

    def mean_error(
        self, source: Float[np.ndarray, "n p"], target: Float[np.ndarray, "n q"]
    ) -> float:
        """Return the mean over rows of ‖prediction − target‖."""
        wanted = target if self.target_space is None else self.target_space.apply(target)
        return float(np.linalg.norm(self.map.apply(source) - wanted, axis=1).mean())


# Fits every map on moments; the second argument is the part that is left out, None for none.
FitAll = Callable[[PairMoments, int | None], Sequence[JudgedMap]]


@dataclass(frozen=True, eq=False)
class NullErrors:
    """Mean errors of every map: as observed and with shuffled pairs, on the same rows."""

    observed: Float[np.ndarray, " maps"]
    shuffled: Float[np.ndarray, "shuffles maps"]

    def p_values(self) -> Float[np.ndarray, " maps"]:
        """Return (b + 1) / (m + 1), b the shuffles at least as close as what was observed."""
        # Equal up to rounding is "as close": the mean-only map never changes.
        tolerance = 1e-9 * np.abs(self.observed)
        as_close = (self.shuffled <= self.observed + tolerance).sum(axis=0)
        return (as_close + 1) / (len(self.shuffled) + 1)

    def means(self) -> Float[np.ndarray, " maps"]:
        """Return the mean shuffled error of every map."""
        return self.shuffled.mean(axis=0)


@dataclass(frozen=True, eq=False)
class _Part:
    """The rows of one part of the split, the target's centred, and their moments."""

    source: Float[np.ndarray, "m p"]
    target: Float[np.ndarray, "m q"]
    moments: PairMoments
    judged: Int[np.ndarray, " j"]


def shuffled_pairing_null(
    source: Float[np.ndarray, "n p"],
    target: Float[np.ndarray, "n q"],
    *,
    fit_all: FitAll,
    split: Split,
    n_shuffles: int,
    seed: int,
) -> tuple[NullErrors, NullErrors | None]:
    """Return the null in-sample and, where the split judges rows, held-out."""
    rng = np.random.default_rng(seed)
    parts = _parts(source, target, split, rng)
    unshuffled = [np.arange(len(part.source)) for part in parts]
    draws = [_judge(parts, unshuffled, fit_all, split)]
    for _ in range(n_shuffles):
        orders = [rng.permutation(len(part.source)) for part in parts]
        draws.append(_judge(parts, orders, fit_all, split))
    in_sample = np.array([draw[0] for draw in draws])
    nulls = NullErrors(in_sample[0], in_sample[1:])
    if not split.judged:
        return nulls, None
    held_out = np.array([draw[1] for draw in draws])
    return nulls, NullErrors(held_out[0], held_out[1:])


def _parts(
    source: Float[np.ndarray, "n p"],
    target: Float[np.ndarray, "n q"],
    split: Split,
    rng: np.random.Generator,
) -> list[_Part]:
    all_moments = pair_moments(
        ArrayRows(source), ArrayRows(target), part_of_row=split.part_of_row, n_parts=split.n_parts
    )
    share = min(1.0, MAX_JUDGED / len(source))
    parts = []
    for number, moments in enumerate(all_moments):
        rows = split.judged_rows(number)
        n_judged = max(1, round(share * rows.size))
        judged = rng.permutation(rows.size)[:n_judged]
        x, y = source[rows].astype(np.float64), target[rows].astype(np.float64)
        parts.append(_Part(x, y, moments, judged))
    return parts


def _judge(
    parts: Sequence[_Part], orders: Sequence[Int[np.ndarray, " _"]], fit_all: FitAll, split: Split
) -> tuple[list[float], list[float]]:
    """Fit and judge all maps with the target's rows in the given order."""
    moments = []
    for part, order in zip(parts, orders, strict=True):
        # Shuffled within the part, only the cross products change.
        centred = part.target[order] - part.moments.mean_y
        moments.append(replace(part.moments, sxy=(part.source - part.moments.mean_x).T @ centred))
    everywhere = range(len(parts))
    maps = fit_all(merge_all(tuple(moments)), None)
    in_sample = _errors(maps, parts, orders, everywhere)
    if not split.judged:
        return in_sample, []
    rest = leave_one_out(tuple(moments))
    weights = [len(parts[number].source) for number in split.judged]
    held_out = [
        _errors(fit_all(rest[number], number), parts, orders, [number]) for number in split.judged
    ]
    return in_sample, list(np.average(held_out, axis=0, weights=weights))


def _errors(
    maps: Sequence[JudgedMap],
    parts: Sequence[_Part],
    orders: Sequence[Int[np.ndarray, " _"]],
    numbers: Sequence[int],
) -> list[float]:
    x = np.concatenate([parts[i].source[parts[i].judged] for i in numbers])
    y = np.concatenate([parts[i].target[orders[i][parts[i].judged]] for i in numbers])
    return [judged.mean_error(x, y) for judged in maps]
