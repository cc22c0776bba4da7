"""The best of many layer pairs against the best of as many shuffled ones.

All layer pairs of two models are one search: shuffling the rows of one model's layers, all alike,
leaves everything but the pairing as it was. Of three models that is so for any two of them; where
no model is source here and target there, all pairs are one search.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from repalign.core.inference.maximum import searched_p
from repalign.core.maps.kinds import KIND_OF
from repalign.workflows.study.resampled import Resampled

if TYPE_CHECKING:
    from repalign.workflows.compare.pair import PairResult
    from repalign.workflows.compare.results import ErrorRecord, MeasureRecord

    Record = TypeVar("Record", ErrorRecord, MeasureRecord)

# With fewer the best of many pairs can hardly be told: |z| is at most m/√(m + 1).
ENOUGH_SHUFFLES = 99

# A record: pair, map or measure, split.
Place = tuple[int, str, str]


def with_searches(results: "Sequence[PairResult]") -> "list[PairResult]":
    """Return the results with p-values corrected for all layer pairs that were looked at."""
    found: dict[Place, tuple[float, int]] = {}
    notes: dict[int, list[str]] = {}
    for family in families([_models(result) for result in results]):
        by_kind: dict[tuple[str, str], dict[int, Resampled]] = {}
        for number in family:
            for each in results[number].resampled:
                if each.draws is not None and is_tested(each.name):
                    by_kind.setdefault((each.name, each.split), {})[number] = each
        for (name, split), members in by_kind.items():
            if len(members) > 1:
                p_values, n_shuffles = searched_p([each.draws for each in members.values()])  # type: ignore[misc]
                note = _note(name, split, n_shuffles, members)
                if n_shuffles == 0:
                    p_values = np.full(len(members), np.nan)
                for number, p_value in zip(members, p_values, strict=True):
                    found[number, name, split] = (float(p_value), len(members))
                    notes.setdefault(number, []).extend(note)
    return [
        replace(
            result,
            records=tuple(_told(record, record.map, number, found) for record in result.records),
            measures=tuple(
                _told(record, record.measure, number, found) for record in result.measures
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
    found: dict[tuple[str, str], list[int]] = {}
    for number, pair in enumerate(models):
        if pair in across:
            found.setdefault(("", "") if is_one else pair, []).append(number)
    return list(found.values())


def is_tested(name: str) -> bool:
    """Whether shuffling can test a map or a measure."""
    return name not in KIND_OF or KIND_OF[name].is_paired


def _models(result: "PairResult") -> tuple[str, str]:
    return result.report.source["name"], result.report.target["name"]


def _note(name: str, split: str, n_shuffles: int, members: Mapping[int, Resampled]) -> list[str]:
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


def _told(
    record: "Record", name: str, number: int, found: Mapping[Place, tuple[float, int]]
) -> "Record":
    p_value, n_pairs = found.get((number, name, record.split), (float("nan"), 0))
    if n_pairs == 0 or not np.isfinite(p_value):
        return record
    return replace(record, p_search=p_value, n_searched=n_pairs)
