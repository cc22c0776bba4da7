"""Rows of a pair kept for a null: the target's are put in any order, and maps judged again."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int

from repalign.core.inference.arrangements import Arrangements
from repalign.core.inference.splits import Split
from repalign.core.maps.affine import AffineMap
from repalign.core.moments import PairMoments, leave_one_out, merge_all, pair_moments
from repalign.core.rows import ArrayRows

# A mean norm over this many rows is known to well under a percent; the maps see all rows.
MAX_JUDGED = 4000
_BLOCK_ROWS = 4096
# Multiplications of one map that are cheap enough to judge on more rows than that.
CHEAP = 5e8
# Values of both sides that are judged at once: copies of more would pass the memory of a null.
BLOCK_VALUES = 2**20


@dataclass(frozen=True, eq=False)
class JudgedMap:
    """A fitted map, and the space in which its error lives: the target's unless said.

    ``free`` are source directions, p×m, whose images the rows did not determine, so that a
    convention did; None where the kind of map has none.
    """

    map: AffineMap
    target_space: AffineMap | None = None
    free: Float[np.ndarray, "p m"] | None = None

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
        """Return the moments with the target's rows in an order: only the cross products change.

        In blocks, so that no second copy of the rows in double precision is held.
        """
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
        is_all = kept.size == len(source)
        x, y = (source, target) if is_all else (source[kept], target[kept])
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
        errors: list[list[Float[np.ndarray, " rows"]]] = [[] for _ in maps]
        for part in parts:
            width = part.source.shape[1] + self.target.shape[1]
            n_blocks = -(-part.judged.size * width // BLOCK_VALUES)
            for rows in np.array_split(part.judged, n_blocks):
                x = part.source[rows].astype(np.float64)
                y = self.target[order[part.rows[rows]]].astype(np.float64)
                for found, judged in zip(errors, maps, strict=True):
                    found.append(judged.errors(x, y))
        return [float(np.concatenate(found).mean()) for found in errors]
