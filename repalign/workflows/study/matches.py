"""Which layer of another model matches each layer best, and which others may do so as well."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from repalign.core.inference.best import plausible_best
from repalign.core.inference.jackknife import Replicates
from repalign.core.similarity.measures import Better
from repalign.workflows.study.resampled import Resampled
from repalign.workflows.study.search import is_tested

if TYPE_CHECKING:
    from repalign.workflows.compare.pair import PairResult
    from repalign.workflows.compare.results import ErrorRecord, MeasureRecord

Side = Literal["source", "target"]
OTHER: dict[Side, Side] = {"source": "target", "target": "source"}


@dataclass(frozen=True)
class MatchRecord:
    """The best match of one view among the views of another model, by one map or measure.

    Attributes:
        model: Model of the view.
        view: The view.
        layer: Its layer, where that is known.
        side: Whether the view is the source of the pairs that were compared, or their target.
        other: The other model.
        by: Map or measure.
        split: How it was judged.
        best: The view of the other model that matches best.
        best_layer: Its layer, where that is known.
        value: What compares the candidates: the error over the rms radius of its target (errors
            over diameters of different targets do not compare), or the value of the measure.
        column: The column of the records that holds it.
        better: ↑ where a higher value is closer, ↓ where a lower one is.
        n_candidates: Views of the other model that were compared.
        plausible: Those that cannot be excluded from being the best: in 95 % of samples the truly
            best one is among them. None where that is not known.
        p_search: The p-value of the best pair among all layer pairs.
        note: Why it is not known which can be excluded.
    """

    model: str
    view: str
    layer: int | None
    side: Side
    other: str
    by: str
    split: str
    best: str
    best_layer: int | None
    value: float
    column: str
    better: Better
    n_candidates: int
    plausible: tuple[str, ...] | None
    p_search: float | None
    note: str | None

    def to_dict(self) -> dict[str, Any]:
        """Return one row of the CSV; several views are one text."""
        told = {each.name: getattr(self, each.name) for each in fields(self)}
        return told | {"plausible": None if self.plausible is None else ", ".join(self.plausible)}


@dataclass(frozen=True, eq=False)
class _Candidate:
    record: "ErrorRecord | MeasureRecord"
    by: str
    value: float
    column: str
    better: Better
    known: Resampled | None


def best_matches(results: "Sequence[PairResult]") -> tuple[MatchRecord, ...]:
    """Return the best match of every view that was compared with several of another model."""
    groups: dict[tuple[str, ...], list[_Candidate]] = {}
    for result in results:
        for candidate in _candidates(result):
            record = candidate.record
            for side in OTHER:
                own, other = _names(record, side), _names(record, OTHER[side])
                key = (side, *own, other[0], candidate.by, record.split)
                groups.setdefault(key, []).append(candidate)
    found = [
        _match(key[0], candidates)  # type: ignore[arg-type]
        for key, candidates in groups.items()
        if len(candidates) > 1
    ]
    return tuple(sorted(found, key=lambda match: match.side))


def _candidates(result: "PairResult") -> "Iterator[_Candidate]":
    """Yield what each record of a pair says, where it says anything."""
    known: Mapping[tuple[str, str], Resampled] = {
        (each.name, each.split): each for each in result.resampled
    }
    for error in result.records:
        value, name = error.error_over_rms_radius, error.map
        if value is not None and is_tested(name):
            told = known.get((name, error.split))
            yield _Candidate(error, name, value, "error_over_rms_radius", "↓", told)
    for measure in result.measures:
        if measure.value is not None:
            name = measure.measure
            told = known.get((name, measure.split))
            better: Better = "↑" if measure.better == "↑" else "↓"
            yield _Candidate(measure, name, measure.value, "value", better, told)


def _names(record: "ErrorRecord | MeasureRecord", side: Side) -> tuple[str, str]:
    if side == "source":
        return record.source, record.source_view
    return record.target, record.target_view


def _layer(record: "ErrorRecord | MeasureRecord", side: Side) -> int | None:
    return record.source_layer if side == "source" else record.target_layer


def _match(side: Side, candidates: "Sequence[_Candidate]") -> MatchRecord:
    first = candidates[0]
    sign = 1.0 if first.better == "↓" else -1.0
    best = min(candidates, key=lambda each: sign * each.value)
    joined = _together([each.known for each in candidates])
    plausible: tuple[str, ...] | None = None
    if isinstance(joined, Replicates):
        may_be = plausible_best(joined)
        views = [_names(each.record, OTHER[side])[1] for each in candidates]
        plausible = tuple(view for view, may in zip(views, may_be, strict=True) if may)
    model, view = _names(first.record, side)
    other, best_view = _names(best.record, OTHER[side])
    return MatchRecord(
        model=model,
        view=view,
        layer=_layer(first.record, side),
        side=side,
        other=other,
        by=first.by,
        split=first.record.split,
        best=best_view,
        best_layer=_layer(best.record, OTHER[side]),
        value=best.value,
        column=best.column,
        better=first.better,
        n_candidates=len(candidates),
        plausible=plausible,
        p_search=best.record.p_search,
        note=joined if isinstance(joined, str) else None,
    )


def _together(known: Sequence[Resampled | None]) -> Replicates | str:
    """Return all candidates on the same choices of groups, or why there are none."""
    parts = [each.replicates for each in known if each is not None and each.replicates is not None]
    if len(parts) < len(known):
        return "no interval is known (--halves)"
    first = parts[0]
    if first.groups.refusal is not None:
        return first.groups.refusal
    rows = {each.rows for each in known if each is not None}
    if len(rows) > 1 or any(len(each.draws) != len(first.draws) for each in parts):
        return (
            "different rows were left out of the candidates; compare them on the same rows, with "
            "one number of --halves"
        )
    joined = replace(
        first,
        full=np.concatenate([each.full for each in parts]),
        draws=np.concatenate([each.draws for each in parts], axis=1),
    )
    if not np.isfinite(joined.draws).all():
        return "some value is not defined without some of the groups"
    return joined
