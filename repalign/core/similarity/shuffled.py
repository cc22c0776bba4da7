"""Measures of pairs whose target rows stand in another order."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from repalign.core.inference.kept_rows import JudgeOrder, KeptRows
from repalign.core.moments import PairMoments, leave_one_out, merge_all
from repalign.core.similarity.canonical import FittingMoments
from repalign.core.similarity.evidence import Evidence
from repalign.core.similarity.held_rows import HeldRows, hold
from repalign.core.similarity.measures import Measure


def judging(
    measures: Sequence[Measure],
    memory_bytes: int,
    known: HeldRows | None = None,
    *,
    seed: int = 0,
) -> Callable[[KeptRows], JudgeOrder]:
    """Return what judges measures in an order of the target; as errors, lower is closer.

    ``known`` are the rows in memory, used where all of them are kept; ``seed`` is that of ties
    among nearest rows.
    """

    def begin(rows: KeptRows) -> JudgeOrder:
        if all(measure.reads == "moments" for measure in measures):
            return _Judge(measures, rows, None).judge
        held = known
        if held is None or held.n != len(rows.target):
            held = hold(rows.source_rows(), rows.target, memory_bytes=memory_bytes, seed=seed)
        return _Judge(measures, rows, held).judge

    return begin


@dataclass(frozen=True, eq=False)
class _Part:
    """Rows that fit and rows that judge; both sides stay, only their pairing changes."""

    fit: FittingMoments
    judged: PairMoments
    rows: HeldRows | None
    fit_rows: HeldRows | None
    positions: Int[np.ndarray, " m"]
    fit_positions: Int[np.ndarray, " l"]


class _Judge:
    def __init__(
        self,
        measures: Sequence[Measure],
        rows: KeptRows,
        held: HeldRows | None,
    ) -> None:
        self._measures = measures
        self._rows = rows
        moments = rows.moments_in(np.arange(len(rows.target)))
        self._fit = FittingMoments.of(merge_all(moments))
        self._held = held
        rest = leave_one_out(moments) if rows.judged else ()
        self._parts = [self._part(number, rest[number], moments) for number in rows.judged]

    def _part(self, number: int, rest: PairMoments, moments: Sequence[PairMoments]) -> _Part:
        positions = self._rows.parts[number].rows
        others = np.setdiff1d(np.arange(len(self._rows.target)), positions)
        held = self._held
        return _Part(
            FittingMoments.of(rest),
            moments[number],
            None if held is None else held.chosen(positions),
            None if held is None else held.chosen(others),
            positions,
            others,
        )

    def judge(self, order: Int[np.ndarray, " kept"]) -> tuple[list[float], list[float]]:
        """Return every measure in-sample and held-out with the target in this order."""
        moments = self._rows.moments_in(order)
        held = None if self._held is None else self._held.with_target_in(order)
        whole = Evidence(self._fit.paired_by(merge_all(moments).sxy), rows=held)
        in_sample = [-measure.sign * measure.value(whole) for measure in self._measures]
        if not self._parts:
            return in_sample, []
        rest = leave_one_out(moments)
        found, weights = [], []
        for number, part in zip(self._rows.judged, self._parts, strict=True):
            one = Evidence(
                part.fit.paired_by(rest[number].sxy),
                moments[number],
                _shuffled(part.rows, part.positions, order),
                _shuffled(part.fit_rows, part.fit_positions, order),
            )
            found.append([-measure.sign * measure.value(one) for measure in self._measures])
            weights.append(part.positions.size)
        return in_sample, list(np.average(found, axis=0, weights=weights))


def _shuffled(
    rows: HeldRows | None, positions: Int[np.ndarray, " m"], order: Int[np.ndarray, " kept"]
) -> HeldRows | None:
    """Return rows of some positions, which an order leaves among themselves, in this order."""
    if rows is None:
        return None
    return rows.with_target_in(np.searchsorted(positions, order[positions]))
