"""Questions about several pairs: the best of many against chance, and which layer matches best.

All layer pairs of two models are one search: shuffling the rows of one model's layers, all alike,
leaves everything but the pairing as it was. Of three models that is so for any two of them; where
no model is source here and target there, all pairs are one search.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from repalign.comparison.pairs import input_places
from repalign.comparison.results import ErrorRecord, MatchRecord, MeasureRecord, Side
from repalign.comparison.scores import MapScores, Scores
from repalign.core.maps import KIND_OF
from repalign.core.measures import measure_called
from repalign.core.resampling.best import Draws, plausible_best, searched_p
from repalign.core.resampling.intervals import Replicates
from repalign.core.resampling.kinds import PAIR_SHUFFLES
from repalign.store.index import RowIndex

if TYPE_CHECKING:
    from repalign.comparison.pair import PairResult

Record = TypeVar("Record", ErrorRecord, MeasureRecord)


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


def resampled_pair(index: RowIndex, scores: Iterable[Scores]) -> Iterator[Resampled]:
    """Yield what questions about several pairs ask of each map and measure."""
    _, rows = input_places(index)
    for of_split in scores:
        null = of_split.nulls.get(PAIR_SHUFFLES[0].name)
        draws = None
        for number, name in enumerate(of_split.names):
            if null is not None and null.refusal is None:
                values = np.concatenate([null.observed[None, number], null.shuffled[:, number]])
                draws = Draws(null.orders, values)
            replicates = _replicates(of_split, number)
            yield Resampled(name, of_split.split, draws, replicates, rows)


def _replicates(scores: Scores, number: int) -> Replicates | None:
    """Return the values of one map or measure as an error; None without an interval."""
    if isinstance(scores, MapScores):
        replicates = scores.halves if scores.is_halved(number) else scores.with_radius
    else:
        replicates = scores.halves if scores.split == "in-sample" else scores.left_out
    if replicates is None:
        return None
    full, draws = replicates.full, replicates.draws
    if isinstance(scores, MapScores):
        # Diameters of different targets do not compare: outlying rows set them.
        full, draws = (
            values[..., [number]] / np.where(values[..., -1:] > 0, values[..., -1:], np.nan)
            for values in (full, draws)
        )
    else:
        sign = -measure_called(scores.names[number]).sign
        full, draws = sign * full[..., [number]], sign * draws[..., [number]]
    return replace(replicates, full=full, draws=draws)


# With fewer the best of many pairs can hardly be told: |z| is at most m/√(m + 1).
ENOUGH_SHUFFLES = 99

# A record: pair, map or measure, split.
Place = tuple[int, str, str]


def with_searches(results: "Sequence[PairResult]") -> "list[PairResult]":
    """Return the results with p-values corrected for all layer pairs that were looked at."""
    corrected: dict[Place, tuple[float, int]] = {}
    notes: dict[int, list[str]] = {}
    reports = [result.report for result in results]
    models = [(report.source["name"], report.target["name"]) for report in reports]
    for family in families(models):
        by_kind: dict[tuple[str, str], dict[int, Draws]] = {}
        for number in family:
            for resampled in results[number].resampled:
                if resampled.draws is not None and is_tested(resampled.name):
                    by_kind.setdefault((resampled.name, resampled.split), {})[number] = (
                        resampled.draws
                    )
        for (name, split), members in by_kind.items():
            if len(members) > 1:
                p_values, n_shuffles = searched_p(list(members.values()))
                note = _note(name, split, n_shuffles, members)
                if n_shuffles == 0:
                    p_values = np.full(len(members), np.nan)
                for number, p_value in zip(members, p_values, strict=True):
                    corrected[number, name, split] = (float(p_value), len(members))
                    notes.setdefault(number, []).extend(note)
    return [
        replace(
            result,
            records=tuple(
                _with_search(record, record.map, number, corrected) for record in result.records
            ),
            measures=tuple(
                _with_search(record, record.measure, number, corrected)
                for record in result.measures
            ),
            report=replace(
                result.report,
                warnings=tuple(dict.fromkeys([*result.report.warnings, *notes.get(number, ())])),
            ),
        )
        for number, result in enumerate(results)
    ]


def families(models: Sequence[tuple[str, str]]) -> list[list[int]]:
    """Return the pairs, by number, that are one search, from the models of source and target."""
    across = {models_of for models_of in models if models_of[0] != models_of[1]}
    sources, targets = ({pair[side] for pair in across} for side in (0, 1))
    is_one = not sources & targets
    by_models: dict[tuple[str, str], list[int]] = {}
    for number, pair in enumerate(models):
        if pair in across:
            by_models.setdefault(("", "") if is_one else pair, []).append(number)
    return list(by_models.values())


def is_tested(name: str) -> bool:
    """Whether shuffling can test a map or a measure."""
    return name not in KIND_OF or KIND_OF[name].is_paired


def _note(name: str, split: str, n_shuffles: int, members: Mapping[int, Draws]) -> list[str]:
    """Say in a line where a search says less than it might."""
    if n_shuffles >= ENOUGH_SHUFFLES:
        return []
    if n_shuffles == 0:
        return [
            f"no p-value over the {len(members)} layer pairs: their rows were shuffled in "
            "different orders; compare them on the same rows (--on-mismatch refuse)"
        ]
    return [
        f"the p-values over {len(members)} layer pairs rest on {n_shuffles} shuffles, which can "
        f"hardly tell the best of so many; use --null {ENOUGH_SHUFFLES} or more"
    ]


def _with_search(
    record: Record, name: str, number: int, corrected: Mapping[Place, tuple[float, int]]
) -> Record:
    p_value, n_pairs = corrected.get((number, name, record.split), (float("nan"), 0))
    if n_pairs == 0 or not np.isfinite(p_value):
        return record
    return replace(record, p_search=p_value, n_searched=n_pairs)


OTHER: dict[Side, Side] = {"source": "target", "target": "source"}


# A record with what was resampled of it.
Candidate = tuple[ErrorRecord | MeasureRecord, Resampled | None]


def best_matches(results: "Sequence[PairResult]") -> tuple[MatchRecord, ...]:
    """Return the best match of every view that was compared with several of another model."""
    groups: dict[tuple[str, ...], list[Candidate]] = {}
    for result in results:
        resampled = {(of.name, of.split): of for of in result.resampled}
        records: list[ErrorRecord | MeasureRecord] = [*result.records, *result.measures]
        for record in records:
            name, value, _ = _by(record)
            if value is None or not is_tested(name):
                continue
            for side in OTHER:
                view, other = _names(record, side), _names(record, OTHER[side])
                key = (side, *view, other[0], name, record.split)
                candidate = record, resampled.get((name, record.split))
                groups.setdefault(key, []).append(candidate)
    matches = [
        _match(key[0], candidates)  # type: ignore[arg-type]
        for key, candidates in groups.items()
        if len(candidates) > 1
    ]
    return tuple(sorted(matches, key=lambda match: match.side))


def _by(record: ErrorRecord | MeasureRecord) -> tuple[str, float | None, str]:
    """Return by which map or measure a record compares, its value, and the value's column."""
    if isinstance(record, ErrorRecord):
        return record.map, record.error_over_rms_radius, "error_over_rms_radius"
    return record.measure, record.value, "value"


def _names(record: ErrorRecord | MeasureRecord, side: Side) -> tuple[str, str]:
    if side == "source":
        return record.source, record.source_view
    return record.target, record.target_view


def _match(side: Side, candidates: Sequence[Candidate]) -> MatchRecord:
    records = [record for record, _ in candidates]
    first = records[0]
    name, _, column = _by(first)
    is_similarity = isinstance(first, MeasureRecord) and first.better == "↑"
    values = np.array([_by(record)[1] for record in records], dtype=np.float64)
    place = int(np.argmin(-values if is_similarity else values))
    best = records[place]
    joined = _together([resampled for _, resampled in candidates])
    plausible: tuple[str, ...] | None = None
    if isinstance(joined, Replicates):
        may_be = plausible_best(joined)
        views = [_names(record, OTHER[side])[1] for record in records]
        plausible = tuple(view for view, may in zip(views, may_be, strict=True) if may)
    model, view = _names(first, side)
    other, best_view = _names(best, OTHER[side])
    layers = {"source": best.source_layer, "target": best.target_layer}
    return MatchRecord(
        model=model,
        view=view,
        layer=first.source_layer if side == "source" else first.target_layer,
        side=side,
        other=other,
        by=name,
        split=first.split,
        best=best_view,
        best_layer=layers[OTHER[side]],
        value=float(values[place]),
        column=column,
        better="↑" if is_similarity else "↓",
        n_candidates=len(candidates),
        plausible=plausible,
        p_search=best.p_search,
        note=joined if isinstance(joined, str) else None,
    )


def _together(known: Sequence[Resampled | None]) -> Replicates | str:
    """Return all candidates on the same choices of groups, or why there are none."""
    parts = [part.replicates for part in known if part is not None and part.replicates is not None]
    if len(parts) < len(known):
        return "no interval is known (--halves)"
    first = parts[0]
    if first.groups.refusal is not None:
        return first.groups.refusal
    rows = {part.rows for part in known if part is not None}
    if len(rows) > 1 or any(len(part.draws) != len(first.draws) for part in parts):
        return (
            "different rows were left out of the candidates; compare them on the same rows, with "
            "one number of --halves"
        )
    joined = replace(
        first,
        full=np.concatenate([part.full for part in parts]),
        draws=np.concatenate([part.draws for part in parts], axis=1),
    )
    if not np.isfinite(joined.draws).all():
        return "some value is not defined without some of the groups"
    return joined
