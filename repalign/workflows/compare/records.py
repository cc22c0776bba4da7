"""From error norms to tidy records: denominators, intervals, nulls, efficiency, conventions."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from repalign.aliases import FloatArray
from repalign.core.errors.efficiency import ica_efficiency
from repalign.core.inference.jackknife import Interval, Statistic
from repalign.core.inference.kinds import PAIR_SHUFFLES
from repalign.core.inference.nulls import Null
from repalign.core.inference.ranges import ANYWHERE, POSITIVE, Range
from repalign.core.inference.rotation import RotationNull
from repalign.core.maps.kinds import KIND_OF
from repalign.core.similarity.measures import Measure
from repalign.options import recorded_values
from repalign.store.sources.source import EmbeddingSource
from repalign.workflows.compare.draws import PairNulls
from repalign.workflows.compare.measured import Measured
from repalign.workflows.compare.results import ErrorRecord, MeasureRecord
from repalign.workflows.compare.scores import MapScores, Scores
from repalign.workflows.compare.settings import CompareSettings


def make_records(
    errors: MapScores,
    source: EmbeddingSource,
    target: EmbeddingSource,
    settings: CompareSettings,
    *,
    nulls: PairNulls | None,
    rotations: RotationNull | None,
) -> Iterator[ErrorRecord]:
    """Yield one record a map, in the order in which the maps were asked for."""
    summary = Summary(errors)
    first, *others = PAIR_SHUFFLES
    null = None if nulls is None else nulls.of(first.name, errors.split)
    further = {
        kind.p_value: None if nulls is None else nulls.of(kind.name, errors.split)
        for kind in others
    }
    held_out = errors.split == "held-out"
    for number, name in enumerate(errors.names):
        scale = errors.scales[name]
        is_ica = KIND_OF[name].needs_ica
        interval = summary.error_interval(number)
        efficiency, efficiency_interval = summary.efficiency(name)
        over_radius = summary.radius_interval(number)
        rotated = rotations if held_out and name == "ica" and efficiency is not None else None
        yield ErrorRecord(
            source=source.name,
            target=target.name,
            source_view=source.shown_view,
            target_view=target.shown_view,
            n_rows=errors.n_rows,
            source_dim=source.dim,
            target_dim=target.dim,
            map=name,
            split=errors.split,
            error=_known(summary.errors[number]),
            ci_low=_known(interval.low),
            ci_high=_known(interval.high),
            null=None if null is None else _over(null.means()[number], scale.diameter.value),
            p_value=_p_value(null, number, name),
            efficiency=efficiency,
            efficiency_low=_known(efficiency_interval.low),
            efficiency_high=_known(efficiency_interval.high),
            diameter=scale.diameter.value,
            converged=_converged(errors) if is_ica else None,
            seed=settings.seed,
            efficiency_null=None if rotated is None else _known(rotated.mean),
            error_over_rms_radius=_over(summary.means[number], scale.rms_radius),
            rms_low=_known(over_radius.low),
            rms_high=_known(over_radius.high),
            diameter_upper=scale.diameter.upper,
            diameter_99=_known(scale.diameter_99),
            rms_radius=scale.rms_radius,
            n_fit_rows=errors.n_fit_rows,
            n_folds=0 if errors.split == "in-sample" else max(settings.n_folds, 1),
            n_null=0 if null is None else len(null.shuffled),
            null_rows=0 if null is None else null.arrangements.kept.size,
            null_observed=(
                None if null is None else _over(null.observed[number], scale.diameter.value)
            ),
            efficiency_null_sd=None if rotated is None else _known(rotated.spread),
            n_rotations=None if rotated is None else rotated.rotated.size,
            efficiency_p=None if rotated is None else _known(rotated.p_value),
            n_groups=errors.n_groups,
            n_halves=summary.n_halves(number),
            smallest_p=None if null is None or null.refusal else null.smallest_p,
            further_p={column: _p_value(each, number, name) for column, each in further.items()},
            **_ica_columns(errors) if is_ica else _NO_ICA,
            source_layer=source.layer,
            target_layer=target.layer,
            conventions=_conventions(settings, is_ica=is_ica),
        )


class Summary:
    """Mean errors over their denominators, with intervals.

    Values of replicates are the mean errors of all maps, then the RMS radius of the target.
    """

    def __init__(self, errors: MapScores) -> None:
        self._errors = errors
        self.names = errors.names
        self.means = errors.values
        self.diameters = np.array([errors.scales[name].diameter.value for name in self.names])
        self.errors = _ratio(self.means, self.diameters)

    def error_interval(self, number: int) -> Interval:
        """Return the interval of the error of one map, given the diameter."""
        diameter = self.diameters[number]
        return self._interval(number, lambda values: _ratio(values[..., number], diameter))

    def radius_interval(self, number: int) -> Interval:
        """Return the interval of the error over the RMS radius.

        None for the mean, whose ratio hardly varies, and for errors in another space.
        """
        name = self.names[number]
        if name == "mean" or KIND_OF[name].in_components:
            return NO_INTERVAL
        return self._interval(
            number, lambda values: _ratio(values[..., number], values[..., -1]), over_radius=True
        )

    def efficiency(self, name: str) -> tuple[float | None, Interval]:
        """Return the efficiency of an ICA map, with an interval where the fits share no rows."""
        if not KIND_OF[name].needs_ica or not {"permutation", "rigid"} <= set(self.names):
            return None, NO_INTERVAL
        if not _has_components(self._errors):
            return None, NO_INTERVAL
        columns = [self.names.index(other) for other in ("permutation", "rigid", name)]

        def of(values: FloatArray) -> FloatArray:
            errors = _ratio(values[..., columns], self.diameters[columns])
            permutation, rigid, ica = (errors[..., place] for place in range(3))
            return ica_efficiency(permutation, rigid, ica)

        value = _known(float(of(self.means)))
        if value is None or not self._errors.is_disjoint or self._errors.halves is None:
            return value, NO_INTERVAL
        return value, self._errors.halves.interval(of, within=ANYWHERE)

    def n_halves(self, number: int) -> int | None:
        """Return the half-samples behind the interval of a map; None where it has other ones."""
        halves = self._errors.halves
        if halves is None or not np.isfinite(halves.draws[:, number]).all():
            return None
        return len(halves.draws) if self._is_halved(number) else None

    def _is_halved(self, number: int) -> bool:
        """Whether an interval follows from half-samples: in-sample, and of all that needs ICA."""
        return self._errors.split == "in-sample" or KIND_OF[self.names[number]].needs_ica

    def _interval(self, number: int, of: Statistic, *, over_radius: bool = False) -> Interval:
        errors = self._errors
        replicates = errors.with_radius if over_radius else errors.left_out
        if self._is_halved(number):
            replicates = errors.halves
        within: Range = ANYWHERE if self._errors.split == "in-sample" else POSITIVE
        return NO_INTERVAL if replicates is None else replicates.interval(of, within=within)


NO_INTERVAL = Interval(float("nan"), float("nan"))
_NO_ICA: dict[str, Any] = {
    "ica_iterations": None,
    "ica_gradient_rms": None,
    "source_rank": None,
    "target_rank": None,
    "matched_correlation": None,
    "source_starts": None,
    "target_starts": None,
    "source_agreement": None,
    "target_agreement": None,
    "source_ica_seed": None,
    "target_ica_seed": None,
}


def _conventions(settings: CompareSettings, *, is_ica: bool) -> dict[str, Any]:
    """Return the recorded options; those of ICA are empty where the map needs none."""
    recorded = recorded_values(settings)
    return {
        name: value if is_ica or not name.startswith("ica_") else None
        for name, value in recorded.items()
    }


def _has_components(errors: MapScores) -> bool:
    """Whether ICA has found anything on either side; where that is not known it may have."""
    return errors.ica is None or any(side.fit.n_identifiable != 0 for side in errors.ica)


def _ica_columns(errors: MapScores) -> dict[str, Any]:
    assert errors.ica is not None
    assert errors.maps.matching is not None
    both = errors.ica
    source, target = (side.fit for side in both)
    return {
        "source_starts": both[0].n_starts,
        "target_starts": both[1].n_starts,
        "source_agreement": both[0].agreement,
        "target_agreement": both[1].agreement,
        "ica_iterations": max(source.n_iter, target.n_iter),
        "ica_gradient_rms": max(source.gradient_rms, target.gradient_rms),
        "source_rank": source.rank,
        "target_rank": target.rank,
        "matched_correlation": errors.maps.matching.mean_correlation,
        "source_ica_seed": source.settings.seed,
        "target_ica_seed": target.settings.seed,
    }


def _converged(errors: MapScores) -> bool:
    return errors.ica is not None and all(side.fit.converged for side in errors.ica)


def _p_value(null: Null | None, number: int, name: str) -> float | None:
    """Return the p-value of a map, unless it uses no pairing that could be tested."""
    if null is None or not KIND_OF[name].is_paired:
        return None
    return _known(null.p_values()[number])


def _ratio(values: FloatArray, scale: FloatArray | float) -> FloatArray:
    """Divide; where the scale is zero nothing varies, and the ratio is undefined."""
    scales = np.asarray(scale, dtype=np.float64)
    return np.divide(values, np.where(scales > 0, scales, np.nan))


def _over(value: float, scale: float) -> float | None:
    return _known(float(value) / scale) if scale > 0 else None


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def measure_records(
    measured: Measured,
    source: EmbeddingSource,
    target: EmbeddingSource,
    settings: CompareSettings,
) -> Iterator[MeasureRecord]:
    """Yield one record a measure and split."""
    for scores in measured.scores:
        first, *others = PAIR_SHUFFLES
        null = _null(measured, first.name, scores.split)
        further = {kind.p_value: _null(measured, kind.name, scores.split) for kind in others}
        for number, measure in enumerate(measured.measures):
            value = _known(scores.values[number])
            interval = _measure_interval(scores, number, measure)
            yield MeasureRecord(
                source=source.name,
                target=target.name,
                source_view=source.shown_view,
                target_view=target.shown_view,
                n_rows=scores.n_rows,
                source_dim=source.dim,
                target_dim=target.dim,
                split=scores.split,
                ci_low=None if interval is None else _known(interval.low),
                ci_high=None if interval is None else _known(interval.high),
                null=None if null is None else _known(-measure.sign * null.means()[number]),
                p_value=_measure_p(null, number) if value is not None else None,
                seed=settings.seed,
                n_fit_rows=scores.n_fit_rows,
                n_folds=0 if scores.split == "in-sample" else max(settings.n_folds, 1),
                n_null=len(null.shuffled) if null is not None else 0,
                null_rows=null.arrangements.kept.size if null is not None else 0,
                null_observed=(
                    None if null is None else _known(-measure.sign * null.observed[number])
                ),
                n_groups=scores.n_groups,
                smallest_p=None if null is None or null.refusal else null.smallest_p,
                further_p={
                    column: _measure_p(each, number) if value is not None else None
                    for column, each in further.items()
                },
                measure=measure.name,
                value=value,
                better=measure.better,
                source_layer=source.layer,
                target_layer=target.layer,
                conventions=_measure_conventions(settings),
            )


def _null(measured: Measured, kind: str, split: str) -> Null | None:
    return None if measured.nulls is None else measured.nulls.of(kind, split)


def _measure_interval(scores: Scores, number: int, measure: Measure) -> Interval | None:
    is_in_sample = scores.split == "in-sample"
    replicates = scores.halves if is_in_sample else scores.left_out
    if replicates is None or (is_in_sample and not measure.has_in_sample_interval):
        return None
    within = measure.range_in(scores.split)
    return replicates.interval(lambda values: values[..., number], within=within)


def _measure_p(null: Null | None, number: int) -> float | None:
    return None if null is None else _known(null.p_values()[number])


def _measure_conventions(settings: CompareSettings) -> dict[str, Any]:
    return {
        name: None if name in _OF_MAPS or name.startswith("ica_") else value
        for name, value in recorded_values(settings).items()
    }


# Recorded options that mean nothing to a measure.
_OF_MAPS = ("permutation_cost",)
