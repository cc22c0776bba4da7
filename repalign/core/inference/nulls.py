"""What the errors would be if the rows were not paired: the shuffled-pairing null.

The target's rows are shuffled, all maps are fitted again and judged again, many times. Shuffled
is only what can change places under the null hypothesis (``arrangements``), and the observed
errors are computed on the very same rows, so that the p-value (b + 1) / (m + 1) of a permutation
test holds exactly, subsample or not.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int

from repalign.core.inference.arrangements import (
    FEWEST_ARRANGEMENTS,
    Arrangements,
    OrderNames,
    ShufflePlan,
)
from repalign.core.inference.splits import Split, no_split
from repalign.core.maps.affine import AffineMap
from repalign.core.moments import PairMoments, leave_one_out, merge_all, pair_moments
from repalign.core.rows import ArrayRows

# A mean norm over this many rows is known to well under a percent; the maps see all rows.
MAX_JUDGED = 4000
_BLOCK_ROWS = 4096
# Multiplications of one map that are cheap enough to judge on more rows than that.
CHEAP = 5e8


@dataclass(frozen=True, eq=False)
class JudgedMap:
    """A fitted map, and the space in which its error lives: the target's unless said."""

    map: AffineMap
    target_space: AffineMap | None = None

    def errors(
        self, source: Float[np.ndarray, "n p"], target: Float[np.ndarray, "n q"]
    ) -> Float[np.ndarray, " n"]:
        """Return ‖prediction − target‖ of every row."""
        wanted = target if self.target_space is None else self.target_space.apply(target)
        return np.linalg.norm(self.map.apply(source) - wanted, axis=1)

    def mean_error(
        self, source: Float[np.ndarray, "n p"], target: Float[np.ndarray, "n q"]
    ) -> float:
        """Return the mean of these errors over the rows."""
        return float(self.errors(source, target).mean())


# Fits every map on moments; the second argument is the part that is left out, None for none.
FitAll = Callable[[PairMoments, int | None], Sequence[JudgedMap]]
# Judges the target's rows in an order: in-sample and held-out, lower is closer.
JudgeOrder = Callable[[Int[np.ndarray, " kept"]], tuple[list[float], list[float]]]


@dataclass(frozen=True, eq=False)
class NullErrors:
    """Mean errors of every map: as observed and with shuffled pairs, on the same rows.

    Attributes:
        observed: With the pairs as they are; the error on all rows differs a little where not
            all of them are kept or judged.
        shuffled: By shuffle; there is none where nothing can change places.
        arrangements: What was shuffled.
        n_judged: Rows on which the errors are means.
        orders: A name for each shuffle, equal where the same inputs are paired.
    """

    observed: Float[np.ndarray, " maps"]
    shuffled: Float[np.ndarray, "shuffles maps"]
    arrangements: Arrangements
    n_judged: int
    orders: tuple[str, ...] = ()

    @property
    def smallest_p(self) -> float:
        """The smallest p-value that could have been found."""
        return 1 / (len(self.shuffled) + 1)

    @property
    def refusal(self) -> str | None:
        """Why there is no p-value; None where there is."""
        found = self.arrangements
        if found.is_sufficient:
            return None
        return (
            f"no p-value: {found.n_moving} of {found.n_units} groups can change places, in "
            f"{found.count} ways in all, and a p-value needs {FEWEST_ARRANGEMENTS}; use more "
            "groups of like sizes, or a split into fewer parts"
        )

    def p_values(self) -> Float[np.ndarray, " maps"]:
        """Return (b + 1) / (m + 1), b the shuffles at least as close as what was observed.

        NaN where there are too few arrangements for that to mean anything.
        """
        if self.refusal is not None:
            return np.full(self.observed.shape, np.nan)
        # Equal up to rounding is "as close": the mean-only map never changes.
        tolerance = 1e-9 * np.abs(self.observed)
        as_close = (self.shuffled <= self.observed + tolerance).sum(axis=0)
        return (as_close + 1) / (len(self.shuffled) + 1)

    def means(self) -> Float[np.ndarray, " maps"]:
        """Return the mean shuffled error of every map, NaN where there was no shuffle."""
        if len(self.shuffled) == 0:
            return np.full(self.observed.shape, np.nan)
        return self.shuffled.mean(axis=0)


def shuffled_pairing_null(
    source: Float[np.ndarray, "n p"],
    target: Float[np.ndarray, "n q"],
    plan: ShufflePlan,
    *,
    fit_all: FitAll,
    n_shuffles: int,
    seed: int,
    identity: Int[np.ndarray, " n"] | None = None,
) -> tuple[NullErrors, NullErrors | None]:
    """Return the null of maps in-sample and, where the split judges rows, held-out."""

    def judging(rows: "KeptRows") -> JudgeOrder:
        return lambda order: rows.judge(order, fit_all)

    return shuffled_null(
        source,
        target,
        plan,
        judging=judging,
        n_shuffles=n_shuffles,
        seed=seed,
        identity=identity,
    )


def shuffled_null(
    source: Float[np.ndarray, "n p"],
    target: Float[np.ndarray, "n q"],
    plan: ShufflePlan,
    *,
    judging: "Callable[[KeptRows], JudgeOrder]",
    n_shuffles: int,
    seed: int,
    identity: Int[np.ndarray, " n"] | None = None,
) -> tuple[NullErrors, NullErrors | None]:
    """Return the null of whatever is judged in an order of the target's rows.

    The orders follow from the plan and the seed alone, so that they are the same whatever is
    judged and whatever the rows hold. ``identity`` is the place of every row among the inputs;
    by it orders have a name.
    """
    rng = np.random.default_rng(seed)
    split, within = plan.split, plan.within
    places = np.arange(len(source)) if identity is None else identity
    shuffled = KeptRows.of(source, target, within, split, rng)
    judge, namer = judging(shuffled), OrderNames.of(within, places)
    draws = [judge(namer.told(order)) for order in given_and_shuffled(within, n_shuffles, rng)]
    orders = tuple(namer.names[1:])
    in_sample = null_errors([draw[0] for draw in draws], within, shuffled.n_judged(), orders)
    held_out = None
    if split.judged:
        n_judged = shuffled.n_judged(split.judged)
        held_out = null_errors([draw[1] for draw in draws], within, n_judged, orders)
    if plan.across is not None:
        shuffled = KeptRows.of(source, target, plan.across, no_split(len(source)), rng)
        judge, namer = judging(shuffled), OrderNames.of(plan.across, places)
        every = given_and_shuffled(plan.across, n_shuffles, rng)
        errors = [judge(namer.told(order))[0] for order in every]
        orders = tuple(namer.names[1:])
        in_sample = null_errors(errors, plan.across, shuffled.n_judged(), orders)
    return in_sample, held_out


def given_and_shuffled(
    arrangements: Arrangements, n_shuffles: int, rng: np.random.Generator
) -> Iterator[Int[np.ndarray, " kept"]]:
    """Yield the order as it is, then the shuffled ones."""
    yield np.arange(arrangements.kept.size)
    yield from arrangements.shuffles(n_shuffles, rng)


def null_errors(
    errors: Sequence[Sequence[float]],
    arrangements: Arrangements,
    n_judged: int,
    orders: tuple[str, ...],
) -> NullErrors:
    """Return a null from what every order gives, the order as it is first."""
    table = np.array(errors)
    return NullErrors(table[0], table[1:], arrangements, n_judged, orders)


@dataclass(frozen=True, eq=False)
class KeptPart:
    """The kept rows of one part of the split, and their moments.

    Attributes:
        rows: Where they stand among the kept rows.
        source: Their source rows, as they are stored.
        moments: Of both sides as they are.
        judged: Rows of the part that judge.
    """

    rows: Int[np.ndarray, " m"]
    source: Float[np.ndarray, "m p"]
    moments: PairMoments
    judged: Int[np.ndarray, " j"]

    def with_target(
        self, target: Float[np.ndarray, "kept q"], order: Int[np.ndarray, " kept"]
    ) -> PairMoments:
        """Return the moments with the target's rows in an order, copying few rows at a time."""
        cross = np.zeros_like(self.moments.sxy)
        for start in range(0, self.rows.size, _BLOCK_ROWS):
            block = slice(start, start + _BLOCK_ROWS)
            centred = target[order[self.rows[block]]] - self.moments.mean_y
            cross += (self.source[block] - self.moments.mean_x).T @ centred
        return replace(self.moments, sxy=cross)


@dataclass(frozen=True, eq=False)
class KeptRows:
    """The kept rows in their parts, of which the target's can be put in any order."""

    target: Float[np.ndarray, "kept q"]
    parts: tuple[KeptPart, ...]
    judged: tuple[int, ...]

    @classmethod
    def of(
        cls,
        source: Float[np.ndarray, "n p"],
        target: Float[np.ndarray, "n q"],
        arrangements: Arrangements,
        split: Split,
        rng: np.random.Generator,
    ) -> "KeptRows":
        """Return the kept rows of two representations, and choose the rows that judge."""
        kept = arrangements.kept
        x, y = source[kept], target[kept]
        part_of_row = split.part_of_row[kept]
        all_moments = pair_moments(
            ArrayRows(x), ArrayRows(y), part_of_row=part_of_row, n_parts=split.n_parts
        )
        n_judged = max(MAX_JUDGED, int(CHEAP / (x.shape[1] * y.shape[1])))
        share = min(1.0, n_judged / kept.size)
        parts = []
        for number, moments in enumerate(all_moments):
            rows = np.flatnonzero(part_of_row == number)
            judged = rng.permutation(rows.size)[: max(1, round(share * rows.size))]
            parts.append(KeptPart(rows, x[rows], moments, judged))
        return cls(y, tuple(parts), split.judged)

    def n_judged(self, numbers: Sequence[int] | None = None) -> int:
        """Return how many rows judge, in some of the parts."""
        chosen = range(len(self.parts)) if numbers is None else numbers
        return sum(self.parts[number].judged.size for number in chosen)

    def source_rows(self) -> Float[np.ndarray, "kept p"]:
        """Return the source's rows, in the order in which they stand."""
        rows = np.empty((len(self.target), self.parts[0].moments.source_dim))
        for part in self.parts:
            rows[part.rows] = part.source
        return rows

    def moments_in(self, order: Int[np.ndarray, " kept"]) -> tuple[PairMoments, ...]:
        """Return the moments of every part with the target's rows in an order of that part."""
        return tuple(part.with_target(self.target, order) for part in self.parts)

    def judge(
        self, order: Int[np.ndarray, " kept"], fit_all: FitAll
    ) -> tuple[list[float], list[float]]:
        """Fit and judge all maps in-sample and held-out, with the target's rows in an order."""
        moments = self.moments_in(order)
        everywhere = range(len(self.parts))
        in_sample = self._errors(fit_all(merge_all(moments), None), order, everywhere)
        if not self.judged:
            return in_sample, []
        rest = leave_one_out(moments)
        weights = [self.parts[number].rows.size for number in self.judged]
        held_out = [
            self._errors(fit_all(rest[number], number), order, [number]) for number in self.judged
        ]
        return in_sample, list(np.average(held_out, axis=0, weights=weights))

    def _errors(
        self,
        maps: Sequence[JudgedMap],
        order: Int[np.ndarray, " kept"],
        numbers: Sequence[int],
    ) -> list[float]:
        parts = [self.parts[number] for number in numbers]
        x = np.concatenate([part.source[part.judged] for part in parts]).astype(np.float64)
        y = np.concatenate([self.target[order[part.rows[part.judged]]] for part in parts])
        return [judged.mean_error(x, y) for judged in maps]
