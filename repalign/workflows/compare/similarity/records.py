"""Tidy records of measures: the columns of the records of maps, and what is a measure's own."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from repalign.core.inference.jackknife import Interval
from repalign.core.inference.kinds import PAIR_SHUFFLES
from repalign.core.inference.nulls import NullErrors
from repalign.core.similarity.measures import Measure
from repalign.options import recorded_values
from repalign.store.sources.source import EmbeddingSource
from repalign.workflows.compare.settings import CompareSettings
from repalign.workflows.compare.similarity.judge import SplitValues
from repalign.workflows.compare.similarity.pair import MeasureResult

# Recorded options that mean nothing to a measure.
_OF_MAPS = ("permutation_cost",)


@dataclass(frozen=True)
class MeasureRecord:
    """One measure of one pair of views, judged in one way.

    The fields have the meaning of those of ``ErrorRecord``; what stands there as ``map`` and
    ``error`` is empty here. ``null`` and ``null_observed`` are values of the measure.

    Attributes:
        measure: Its name, with its number.
        value: The value on ``n_rows`` rows.
        better: ↑ where higher is closer, ↓ where lower is.
    """

    source: str
    target: str
    source_view: str
    target_view: str
    n_rows: int
    source_dim: int
    target_dim: int
    split: str
    ci_low: float | None
    ci_high: float | None
    null: float | None
    p_value: float | None
    seed: int
    n_fit_rows: int
    n_folds: int
    n_null: int
    null_rows: int
    null_observed: float | None
    n_groups: int
    smallest_p: float | None
    further_p: Mapping[str, float | None]
    measure: str
    value: float | None
    better: str
    source_layer: int | None
    target_layer: int | None
    conventions: Mapping[str, Any]
    p_search: float | None = None
    n_searched: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the cells of one row of the CSV that are not empty by nature."""
        told = {name: value for name, value in vars(self).items() if name not in _FURTHER}
        return told | dict(self.further_p) | dict(self.conventions)


_FURTHER = ("further_p", "conventions")
OWN_COLUMNS = ("measure", "value", "better")
"""Columns that stand behind those of maps where there are measures."""


def measure_records(
    result: MeasureResult,
    source: EmbeddingSource,
    target: EmbeddingSource,
    settings: CompareSettings,
) -> Iterator[MeasureRecord]:
    """Yield one record a measure and split."""
    for values in result.values:
        first, *others = PAIR_SHUFFLES
        null = _null(result, first.name, values.split)
        further = {kind.p_value: _null(result, kind.name, values.split) for kind in others}
        for number, measure in enumerate(result.measures):
            value = _known(values.values[number])
            interval = _interval(values, number, measure)
            yield MeasureRecord(
                source=source.name,
                target=target.name,
                source_view=source.shown_view,
                target_view=target.shown_view,
                n_rows=values.n_rows,
                source_dim=source.dim,
                target_dim=target.dim,
                split=values.split,
                ci_low=None if interval is None else _known(interval.low),
                ci_high=None if interval is None else _known(interval.high),
                null=None if null is None else _known(-measure.sign * null.means()[number]),
                p_value=_p_value(null, number) if value is not None else None,
                seed=settings.seed,
                n_fit_rows=values.n_fit_rows,
                n_folds=0 if values.split == "in-sample" else max(settings.n_folds, 1),
                n_null=len(null.shuffled) if null is not None else 0,
                null_rows=null.arrangements.kept.size if null is not None else 0,
                null_observed=(
                    None if null is None else _known(-measure.sign * null.observed[number])
                ),
                n_groups=values.n_groups,
                smallest_p=None if null is None or null.refusal else null.smallest_p,
                further_p={
                    column: _p_value(each, number) if value is not None else None
                    for column, each in further.items()
                },
                measure=measure.name,
                value=value,
                better=measure.better,
                source_layer=source.layer,
                target_layer=target.layer,
                conventions=_conventions(settings),
            )


def _null(result: MeasureResult, kind: str, split: str) -> NullErrors | None:
    return None if result.nulls is None else result.nulls.of(kind, split)


def _interval(values: SplitValues, number: int, measure: Measure) -> Interval | None:
    is_in_sample = values.split == "in-sample"
    if values.replicates is None or (is_in_sample and not measure.has_in_sample_interval):
        return None
    within = measure.range_in(values.split)
    return values.replicates.interval(lambda means: means[..., number], within=within)


def _p_value(null: NullErrors | None, number: int) -> float | None:
    return None if null is None else _known(null.p_values()[number])


def _conventions(settings: CompareSettings) -> dict[str, Any]:
    return {
        name: None if name in _OF_MAPS or name.startswith("ica_") else value
        for name, value in recorded_values(settings).items()
    }


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
