"""From scores to tidy records and the report of a pair: denominators, intervals, nulls."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from repalign.comparison.draws import PairNulls
from repalign.comparison.measured import Measured
from repalign.comparison.pairs import Pair
from repalign.comparison.results import ErrorRecord, IcaReport, MeasureRecord, PairReport
from repalign.comparison.scores import MapScores, Scores
from repalign.comparison.settings import CompareSettings
from repalign.comparison.space import Scale, SpaceIca
from repalign.core.linalg import eigvalsh
from repalign.core.maps import KIND_OF
from repalign.core.measures import Measure
from repalign.core.moments import PairMoments
from repalign.core.resampling.intervals import Interval
from repalign.core.resampling.kinds import PAIR_SHUFFLES
from repalign.core.resampling.nulls import Null
from repalign.core.resampling.rotations import RotationNull
from repalign.options import recorded_values
from repalign.store.source import EmbeddingSource


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
        interval = errors.error_interval(number)
        efficiency, efficiency_interval = errors.efficiency(name)
        over_radius = errors.radius_interval(number)
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
            error=_known(errors.over_diameter[number]),
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
            error_over_rms_radius=_over(errors.values[number], scale.rms_radius),
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
            n_halves=errors.n_halves(number),
            smallest_p=None if null is None or null.refusal else null.smallest_p,
            further_p={column: _p_value(more, number, name) for column, more in further.items()},
            **_ica_columns(errors) if is_ica else _NO_ICA,
            source_layer=source.layer,
            target_layer=target.layer,
            conventions=_conventions(settings, is_ica=is_ica),
        )


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
                    column: _measure_p(more, number) if value is not None else None
                    for column, more in further.items()
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


def report_of(
    pair: Pair,
    total: PairMoments,
    judged: Sequence[MapScores],
    scale: Scale,
    *,
    nulls: PairNulls | None,
    rotations: RotationNull | None,
) -> PairReport:
    """Return the report of a pair; its warnings come later, when all of them are known."""
    errors = judged[0] if judged else None
    source, target = pair.source, pair.target
    ends = scale.diameter.first_row, scale.diameter.second_row
    matching = None if errors is None else errors.maps.matching
    return PairReport(
        source=_provenance(source),
        target=_provenance(target),
        join=asdict(pair.report),
        n_rows=pair.n_rows,
        diameter=scale.diameter.value,
        diameter_upper=scale.diameter.upper,
        diameter_exact=scale.diameter.exact,
        diameter_rows=(_row_name(pair, ends[0]), _row_name(pair, ends[1])),
        rms_radius=scale.rms_radius,
        diameter_99=scale.diameter_99,
        ica=() if errors is None else _ica_reports(errors.ica, pair),
        matched_correlations=() if matching is None else tuple(matching.correlation.tolist()),
        null_errors={} if nulls is None else _null_errors(nulls, judged),
        matched_identifiable=() if errors is None else _matched_identifiable(errors),
        rotated_efficiencies=() if rotations is None else tuple(rotations.rotated.tolist()),
        spectra=_spectra(total),
        warnings=(),
    )


def _matched_identifiable(errors: MapScores) -> tuple[bool, ...]:
    """Return which matched components are less Gaussian than chance on both sides."""
    matching = errors.maps.matching
    if matching is None or errors.ica is None:
        return ()
    is_known = np.ones(len(matching.correlation), dtype=bool)
    pairs = matching.matching
    for side, numbers in zip(errors.ica, (pairs.source, pairs.target), strict=True):
        # components stand by falling non-Gaussianity
        if side.fit.n_identifiable is not None:
            is_known &= numbers < side.fit.n_identifiable
    return tuple(is_known.tolist())


def _null_errors(nulls: PairNulls, judged: Sequence[MapScores]) -> dict[str, tuple[float, ...]]:
    """Return the errors on shuffled pairs, over the diameter that the split's own errors have."""
    draws = {}
    for errors in judged:
        null = nulls.of(PAIR_SHUFFLES[0].name, errors.split)
        for number, name in enumerate(nulls.names if null is not None else ()):
            assert null is not None
            diameter = errors.scales[name].diameter.value
            if diameter > 0:
                values = null.shuffled[:, number] / diameter
                draws[f"{errors.split}/{name}"] = tuple(values.tolist())
    return draws


def _provenance(source: EmbeddingSource) -> dict[str, Any]:
    return {
        "name": source.name,
        "path": None if source.path is None else str(source.path),
        "view": source.view,
        "layer": source.layer,
        "n_rows": source.n_rows,
        "dim": source.dim,
        "dtype": str(source.rows.dtype),
        "fingerprint": source.fingerprint,
        "info": dict(source.info),
    }


def _row_name(pair: Pair, row: int) -> str:
    """Name a row as its user does: by id, else by sample number, and by token where it has one."""
    return pair.index.slice(row, row + 1).name_of(0)


def _ica_reports(ica: tuple[SpaceIca, SpaceIca] | None, pair: Pair) -> tuple[IcaReport, ...]:
    if ica is None:
        return ()
    return tuple(
        IcaReport(
            side=side,
            rows="all" if space.fit.n_fit_rows == pair.n_rows else "some",
            solver=space.fit.settings.solver,
            contrast=space.fit.settings.contrast,
            converged=space.fit.converged,
            iterations=space.fit.n_iter,
            gradient_rms=space.fit.gradient_rms,
            rank=space.fit.rank,
            dim=dim,
            identifiable=space.fit.n_identifiable,
            kurtosis=tuple(space.fit.kurtosis.tolist()),
            n_starts=space.n_starts,
            agreement=space.agreement,
            n_fit_rows=space.fit.n_fit_rows,
            seed=space.fit.settings.seed,
        )
        for side, space, dim in zip(("source", "target"), ica, pair.dims, strict=True)
    )


def _spectra(total: PairMoments) -> dict[str, tuple[float, ...]]:
    """Return the variances along the principal directions of both sides, falling."""
    return {
        side: tuple(eigvalsh(scatter / total.n)[::-1].clip(min=0).tolist())
        for side, scatter in (("source", total.sxx), ("target", total.syy))
    }
